"""Traders that run beside an exchange: `serl exchange start --with`. The exchange does not know populations; the command line connects the two."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import click

from serl.exchange.config import ExchangeConfig


class TraderOptions(NamedTuple):
    """The command line options about the traders."""

    population: str
    hosts: int
    seed: int
    flow: Path | None
    forecaster: Path | None = None


class TraderProcesses(Protocol):
    """The traders beside one exchange."""

    @property
    def defaults(self) -> dict[str, Any]:
        """Default settings of the exchange (nested, like configs/exchange.yaml); its file and its options override them."""
        ...

    def start(self, settings: ExchangeConfig) -> None:
        """Starts the processes, which then compile. Raises ConfigError if this exchange cannot have these traders."""
        ...

    def wait_until_compiled(self) -> None:
        """Waits until the processes have compiled and are waiting only for the exchange."""
        ...

    def join(self) -> str:
        """Lets the traders log in; called once the exchange is ready. Returns a one-line description of them."""
        ...

    def stop(self) -> None:
        """Ends the processes."""
        ...

    def raise_failure(self) -> None:
        """Raises an error if a process has failed."""
        ...


StartTraders = Callable[[TraderOptions], TraderProcesses]


def trader_processes(
    context: click.Context, population: str | None, hosts: int | None, seed: int | None, flow: Path | None,
    forecaster: Path | None,
) -> TraderProcesses | None:  # fmt: skip
    """The traders that the options of `serl exchange start` describe; None without --with. The object of the click context, set by the command
    line, creates them."""
    given = {"--hosts": hosts, "--seed": seed, "--flow": flow, "--forecaster": forecaster}
    if population is None:
        if idle := [name for name, value in given.items() if value is not None]:
            raise click.UsageError(
                f"{', '.join(idle)}: expected --with POPULATION, got none; add it, or leave out {idle[0]}"
            )
        return None
    make: StartTraders = context.find_root().obj
    return make(TraderOptions(population, hosts or 1, 1 if seed is None else seed, flow, forecaster))
