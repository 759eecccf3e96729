"""Kinds of traders: each is a decorated function and a profile of its parameters.

    class Parameters(Profile):
        interval_s: float = Field(60.0, gt=0, description="mean time between wake-ups")

    @trader("momentum", Parameters, memory=52, depth=0)
    def momentum(agent, profile, market, requests): ...

`agent`, `profile`, `market`, `requests` are records (AGENT, the profile's fields as float64, VIEW, REQUESTS). The function
is compiled and calls the functions of trader_api.py. Only its memory outlives a wake-up.
"""

import dataclasses
import importlib
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numba import from_dtype, types
from pydantic import ConfigDict

from serl.agents.traders.compile_errors import not_compiled
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.records import AGENT, DEPTH_MAX, REQUESTS, VIEW
from serl.exchange.compiling import entry
from serl.exchange.invalid import StrictSettings

Function = Callable[[Any, Any, Any, Any], None]

BUILT_IN = (
    "zero_intelligence", "noise", "value", "informed", "momentum", "participation_maker", "avellaneda_stoikov",
    "belief", "imbalance", "institutional", "hawkes", "stop_loss", "spoofer",
    "flow", "metaorder", "arbitrageur", "neural_flow", "forecaster", "forecast_taker",
)  # fmt: skip
"""Modules of serl.agents.traders.kinds; each defines one kind."""
_BUILT_IN_KINDS = "serl.agents.traders.kinds"


class Profile(StrictSettings):
    """Parameters of a kind of trader: numbers, and tuples of numbers with fixed length. Names end with the unit."""

    model_config = ConfigDict(allow_inf_nan=False)

    @classmethod
    def dtype(cls) -> np.dtype[Any]:
        """The record that compiled code reads: fields are float64, tuples are arrays of the default's length."""
        fields: list[Any] = []
        for name, field in cls.model_fields.items():
            if isinstance(field.default, tuple):
                fields.append((name, "<f8", (len(field.default),)))
            else:
                fields.append((name, "<f8"))
        return np.dtype(fields or [("none", "<f8")], align=True)

    def record(self) -> np.ndarray[Any, np.dtype[np.void]]:
        """One row of `dtype()`."""
        row = np.zeros(1, self.dtype())
        for name in type(self).model_fields:
            row[name] = getattr(self, name)
        return row


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of trader."""

    name: str
    profile: type[Profile]
    function: Function
    memory: int
    depth: int
    basket: bool = False
    forecasts: bool = False
    everywhere: bool = False

    @cached_property
    def compiled(self) -> Any:
        """The function compiled to machine code at `.address`; cached on disk if it comes from a file. Raises PopulationError, with file and line, if
        it cannot be compiled."""
        path = os.path.abspath(self.function.__code__.co_filename)
        dtypes = {"agent": AGENT, "profile": self.profile.dtype(), "market": VIEW, "requests": REQUESTS}
        signature = types.void(*map(from_dtype, dtypes.values()))
        try:
            return entry(self.function, signature, keep=os.path.exists(path))
        except OSError:  # the cache's folder is not usable
            raise
        except Exception as error:
            raise not_compiled(error, self.function, dtypes) from error


_kinds: dict[str, Kind] = {}


def trader(
    name: str, profile: type[Profile], *, memory: int = 0, depth: int = 0, basket: bool = False, forecasts: bool = False,
    everywhere: bool = False,
) -> Callable[[Function], Function]:  # fmt: skip
    """Registers a function as a kind of trader that populations can name.

    memory: how many numbers it keeps between wake-ups; depth: levels per side that it sees (0..10); basket: it trades a basket against its members
    (basket_api.py); forecasts: it reads forecasts, so its population must have a forecaster; everywhere: it computes forecasts from public data
    alone and sends nothing, so that every host runs a copy.

    Raises PopulationError for the name of a kind of serl: which of the two traded would depend on the order of imports.
    """
    if not 0 <= depth <= DEPTH_MAX or memory < 0:
        raise PopulationError(
            f"trader {name!r}: expected depth 0 to {DEPTH_MAX} and memory 0 or more, got {depth} and {memory}; "
            "correct the decorator"
        )

    def register(function: Function) -> Function:
        if name in BUILT_IN and function.__module__ != f"{_BUILT_IN_KINDS}.{name}":
            raise PopulationError(
                f"trader {name!r} of module {function.__module__}: expected a new name, got that of a trader of serl; rename it"
            )
        _kinds[name] = Kind(name, profile, function, memory, depth, basket, forecasts, everywhere)
        return function

    return register


def kinds_of(module: str) -> list[Kind]:
    """The kinds that the module with this name has registered."""
    return [kind for kind in _kinds.values() if kind.function.__module__ == module]


def load_kind(name: str) -> Kind:
    """Imports and returns a kind by name. Raises PopulationError, which lists the known names, for an unknown one."""
    if name in BUILT_IN:
        importlib.import_module(f"{_BUILT_IN_KINDS}.{name}")
    if name not in _kinds:
        raise PopulationError(
            f"expected a trader of {', '.join(sorted({*BUILT_IN, *_kinds}))}, got {name!r}; "
            "if it is your own, list the module that defines it in `modules` of the population"
        )
    return _kinds[name]
