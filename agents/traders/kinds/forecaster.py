"""A forecaster of `serl signals train` in a simulated market: it sends no orders; other traders read its forecasts.

At every multiple of 100 ms it observes the best five levels and what buyers and sellers took, computes the features of agents/signals/features.py,
and every `every_steps` observations writes its forecasts to the board of its symbol. There is no forecast for a minute after a book without a bid,
an ask or a spread. Every host runs a copy, which sees the same public data, so that all traders read the same forecasts.
"""

import base64
import math
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from serl.agents.traders.addresses import load_float64, store_float64
from serl.agents.traders.forecast_features import (
    FEATURES,
    LEVELS,
    SLOTS,
    STEP_NS,
    layer,
    standardise,
    take_book,
    weighed,
    write_features,
)
from serl.agents.traders.records import (
    BOARD_COUNT,
    BOARD_START,
    BOARD_TIME,
    FORECAST_HORIZONS_MAX,
    FORECAST_NUMBERS,
)
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import sleep
from serl.exchange.compiling import inlined

CLIP = 5.0
"""Limit to which standardised features are clipped, as in agents/signals/features.py."""
EXPONENT_MAX = 20.0
"""Limit of the exponent of volumes, as in agents/signals/log_linear.py."""
CLASSES = 3
LINEAR = FEATURES + 1
"""Number of numbers of a linear model of one horizon: weights, then the intercept."""
LAYERS_MAX, WIDTH_MAX, WEIGHTS_MAX = 4, 64, 8192
"""Limits of the layers, of a layer's outputs, and of the weights and intercepts of all layers."""


def _untrained() -> str:
    """Numbers for which all outcomes are equally probable, at horizons of 1, 10 and 60 s."""
    scaling = [0.0] * FEATURES + [1.0] * FEATURES
    trend = [3.0, 1.0, FEATURES, 9.0, 1.0, 10.0, 60.0, *scaling, *[0.0] * (FEATURES * 9 + 9)]
    parts = [*trend, *[1.0] * 3, *[0.0] * (3 * LINEAR), *scaling, *[0.0] * (3 * LINEAR)]
    return base64.b64encode(np.array(parts, "<f8").tobytes()).decode()


class ForecasterProfile(Profile):
    """The numbers of a trained forecaster, written by forecasters.py."""

    numbers: str = Field(
        _untrained(),
        description="float64, little-endian, base64: number of horizons and of layers; sizes of the layers, that of the features first; "
        "horizons in s; centre and scale of the features; weights (in, out) and intercepts of each layer, the last divided by the temperatures; mean "
        "volumes; weights and intercept of the volume of each horizon; centre and scale of fills, and weights and intercept of the fill of each horizon",
    )
    every_steps: int = Field(10, ge=1, le=36_000, description="100 ms between two forecasts")

    @field_validator("numbers")
    @classmethod
    def _readable(cls, text: str) -> str:
        try:
            _unpack(text)
        except (ValueError, IndexError) as error:
            raise ValueError(f"expected a forecaster in base64 ({error}); train it again") from None
        return text

    @classmethod
    def dtype(cls) -> np.dtype[Any]:
        """The record that compiled code reads."""
        return np.dtype(
            [
                ("every_steps", "<i8"), ("horizons", "<i8"), ("layers", "<i8"), ("sizes", "<i8", (LAYERS_MAX + 1,)),
                ("horizons_s", "<f8", (FORECAST_HORIZONS_MAX,)), ("centre", "<f8", (FEATURES,)), ("scale", "<f8", (FEATURES,)),
                ("weights", "<f8", (WEIGHTS_MAX,)), ("means", "<f8", (FORECAST_HORIZONS_MAX,)),
                ("volume", "<f8", (LINEAR * FORECAST_HORIZONS_MAX,)), ("fill_centre", "<f8", (FEATURES,)), ("fill_scale", "<f8", (FEATURES,)),
                ("fill", "<f8", (LINEAR * FORECAST_HORIZONS_MAX,)),
            ],
            align=True,
        )  # fmt: skip

    def record(self) -> np.ndarray[Any, np.dtype[np.void]]:
        """One row of `dtype()`."""
        row, parts = np.zeros(1, self.dtype()), _unpack(self.numbers)
        row["every_steps"], row["horizons"], row["layers"] = (
            self.every_steps,
            len(parts["means"]),
            len(parts["sizes"]) - 1,
        )
        for name, values in parts.items():
            row[name][0, : len(values)] = values
        return row


def _unpack(text: str) -> dict[str, Any]:
    """Unpacks the arrays by the names of the record. Raises ValueError or IndexError if they do not fit."""
    numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f8")
    if not np.isfinite(numbers).all():
        raise ValueError("numbers that are not finite")
    horizons, layers = int(numbers[0]), int(numbers[1])
    if not (1 <= horizons <= FORECAST_HORIZONS_MAX and 1 <= layers <= LAYERS_MAX):
        raise ValueError(f"{horizons} horizons and {layers} layers")
    sizes = numbers[2 : 3 + layers].astype(np.int64)
    weights = int((sizes[:-1] * sizes[1:] + sizes[1:]).sum())
    lengths = {
        "horizons_s": horizons, "centre": FEATURES, "scale": FEATURES, "weights": weights, "means": horizons,
        "volume": LINEAR * horizons, "fill_centre": FEATURES, "fill_scale": FEATURES, "fill": LINEAR * horizons,
    }  # fmt: skip
    rest = numbers[3 + layers :]
    if sum(lengths.values()) != len(rest) or weights > WEIGHTS_MAX or sizes[1:].max() > WIDTH_MAX or sizes.min() < 1:
        raise ValueError(f"{len(numbers)} numbers for layers of {sizes.tolist()}")
    if sizes[0] != FEATURES or sizes[-1] != CLASSES * horizons:
        raise ValueError(f"layers of {sizes.tolist()} for {FEATURES} features and {horizons} horizons")
    found = dict(zip(lengths, np.split(rest, np.cumsum([*lengths.values()])[:-1]), strict=True))
    if not all((found[name] > 0).all() for name in ("scale", "means", "fill_scale")):
        raise ValueError("a scale or mean that is not positive")
    return {"sizes": sizes, **found}


_FIRST = SLOTS
_SECOND = SLOTS + WIDTH_MAX
"""Second of the two buffers between which layers alternate their inputs and outputs."""


@inlined
def _run_layers(profile: Any, market: Any) -> int:
    """Runs the network; returns the address of the logits, CLASSES for each horizon."""
    source, target = market.memory_address + 8 * _FIRST, market.memory_address + 8 * _SECOND
    standardise(market.memory_address, source, profile.centre, profile.scale, CLIP)
    at = 0
    for number in range(profile.layers):
        n_in, n_out = profile.sizes[number], profile.sizes[number + 1]
        layer(profile.weights, at, source, n_in, target, n_out)
        at += n_in * n_out + n_out
        if number + 1 < profile.layers:
            for unit in range(n_out):
                store_float64(target + 8 * unit, max(0.0, load_float64(target + 8 * unit)))
        source, target = target, source
    return source


@inlined
def _write_trend(logits: int, row: int) -> None:
    """Writes the softmax of the logits of a horizon. Both arguments are addresses."""
    highest = max(load_float64(logits), load_float64(logits + 8), load_float64(logits + 16))
    total = 0.0
    for place in range(CLASSES):
        share = math.exp(load_float64(logits + 8 * place) - highest)
        store_float64(row + 8 * place, share)
        total += share
    for place in range(CLASSES):
        store_float64(row + 8 * place, load_float64(row + 8 * place) / total)


@inlined
def _write_flow(profile: Any, market: Any, horizon: int, row: int) -> None:
    """Writes the expected volume and the fill probabilities of a horizon, VOLUME to FILL_SELL."""
    memory, at = market.memory_address, horizon * LINEAR
    linear = weighed(memory, profile.centre, profile.scale, CLIP, profile.volume, at, 0)
    store_float64(row + 8 * CLASSES, profile.means[horizon] * math.exp(min(linear, EXPONENT_MAX)))
    for side in range(2):
        linear = weighed(memory, profile.fill_centre, profile.fill_scale, CLIP, profile.fill, at, side)
        store_float64(row + 8 * (CLASSES + 1 + side), 1.0 / (1.0 + math.exp(-linear)))


@inlined
def _write_board(profile: Any, market: Any) -> None:
    """Writes the forecasts of all horizons to the board."""
    write_features(market.memory_address)
    logits, board = _run_layers(profile, market), market.board_address
    for horizon in range(profile.horizons):
        row = board + 8 * (BOARD_START + FORECAST_NUMBERS * horizon)
        store_float64(row, profile.horizons_s[horizon])
        _write_trend(logits + 8 * CLASSES * horizon, row + 8)
        _write_flow(profile, market, horizon, row + 8)
    store_float64(board + 8 * BOARD_TIME, 1.0 * market.time_ns)
    store_float64(board + 8 * BOARD_COUNT, 1.0 * profile.horizons)


@trader("forecaster", ForecasterProfile, memory=SLOTS + 2 * WIDTH_MAX, depth=LEVELS, everywhere=True)
def forecaster(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: see forecast_features.py, then the inputs and outputs of a layer. O(weights) per forecast."""
    step = market.time_ns // STEP_NS
    if not take_book(market):
        store_float64(market.board_address + 8 * BOARD_COUNT, 0.0)
    elif step % profile.every_steps == 0:
        _write_board(profile, market)
    sleep(requests, market, (step + 1) * STEP_NS - market.time_ns)
