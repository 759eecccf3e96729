"""A population that trades on the exchange that the same command starts: `serl exchange start --with POPULATION`."""

import threading
from decimal import Decimal
from multiprocessing.connection import wait
from typing import Any

import click

from serl.agents.traders.errors import PopulationError, SimulationError
from serl.agents.traders.forecasters import load_with_forecaster
from serl.agents.traders.host_processes import HostProcesses, HostSettings
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.symbols import SymbolConfig
from serl.exchange.config import ExchangeConfig, MarketRules, endpoint_port
from serl.exchange.keys import read_keys
from serl.exchange.login import Permission
from serl.exchange.trader_processes import TraderOptions

PERMISSIONS: tuple[Permission, ...] = ("trade", "data")
"""Permissions that a host needs if participants are configured."""
ANY_ADDRESS = "*", "0.0.0.0", "[::]"
"""Hosts in endpoints that listen on all addresses; a client cannot connect to these."""


class PopulationProcesses:
    """See `serl.exchange.trader_processes.TraderProcesses`."""

    def __init__(self, options: TraderOptions) -> None:
        """Reads the population. Raises PopulationError if there is none, or if it has fewer traders than hosts."""
        self._options = options
        self._population = load_with_forecaster(options.population, options.forecaster)
        self._settings = self._host_settings(self._population, "", ())  # checks the number of hosts
        self._processes: HostProcesses | None = None
        self._stopping = threading.Event()
        self._watch = threading.Thread(target=self._report_ends, name="traders", daemon=True)

    def _host_settings(self, population: PopulationConfig, endpoint: str, tokens: tuple[str, ...], **options: Any) -> HostSettings:  # fmt: skip
        made = self._options
        return HostSettings(
            population, made.seed, endpoint, made.hosts, population.close_ns, tokens, flow=made.flow, **options
        )

    @property
    def defaults(self) -> dict[str, Any]:
        """See TraderProcesses. The exchange has the population's symbols and rules, its day starts at the population's open, and lockstep
        waits for the hosts."""
        population = self._population
        return {
            "symbols": population.symbol_settings,
            "clock": {"start": population.open, "participants": self._options.hosts},
        }

    def start(self, settings: ExchangeConfig) -> None:
        """See TraderProcesses."""
        self._check_participants(settings)
        population = match_symbols(self._population, settings)
        tokens, curve = self._tokens(settings), settings.login.curve_keys
        self._settings = self._host_settings(population, own_endpoint(settings.endpoint), tokens, curve=curve)
        self._processes = HostProcesses(self._settings)

    def _check_participants(self, settings: ExchangeConfig) -> None:
        """Checks that a lockstep clock waits for all hosts; otherwise it would start without some."""
        hosts, clock = self._options.hosts, settings.clock
        if clock.kind == "lockstep" and clock.participants < hosts:
            raise PopulationError(
                f"participants: expected at least {hosts}, the hosts of {self._population.name}, got {clock.participants}; leave it out, or add the "
                "hosts to it"
            )

    def _tokens(self, settings: ExchangeConfig) -> tuple[str, ...]:
        """The token of each host; "" on an exchange without participants."""
        login = settings.login
        if not login.participants:
            return ("",) * self._options.hosts
        public = "" if login.curve_keys is None else read_keys(login.curve_keys).client_public
        tokens = []
        for host in range(self._options.hosts):
            name = f"traders-{self._population.name}-{host}"
            own = login.participants.get(name)
            if own is None or not set(PERMISSIONS) <= set(own.permissions):
                got = "none" if own is None else f"one with {', '.join(own.permissions)}"
                raise PopulationError(
                    f"login.participants: expected {name} with the permissions {' and '.join(PERMISSIONS)}, as which the traders log in, got {got}; "
                    f"add `{name}: {{token_file: FILE}}` for each of the {self._options.hosts} hosts"
                )
            if own.client_key not in ("", public):
                raise PopulationError(
                    f"login.participants.{name}: expected the client_key in {login.curve_keys}/client.public, which the traders use, got another; "
                    "give it a token instead, or start the traders with `serl agents start --curve`"
                )
            tokens.append(own.token)
        return tuple(tokens)

    def wait_until_compiled(self) -> None:
        """See TraderProcesses."""
        assert self._processes is not None
        self._processes.wait_until_compiled()

    def join(self) -> str:
        """See TraderProcesses."""
        assert self._processes is not None
        self._processes.let_log_in()
        self._watch.start()
        population, hosts = self._settings.population, self._options.hosts
        return (
            f"{population.name}: {population.traders:,} trader{'s' if population.traders > 1 else ''} of {', '.join(population.symbol_names)} in {hosts} host{'s' if hosts > 1 else ''}, "
            f"seed {self._options.seed}"
        )

    def _report_ends(self) -> None:
        """Reports each host that fails, and the end of the population's day."""
        assert self._processes is not None
        running = {process.sentinel: host for host, process in enumerate(self._processes.processes)}
        while running:
            for sentinel in wait(list(running)):
                host = running.pop(sentinel)  # pyrefly: ignore[bad-argument-type]
                if not self._stopping.is_set():
                    self._report_end(host)

    def _report_end(self, host: int) -> None:
        assert self._processes is not None
        processes, name = self._processes, self._population.name
        process = processes.processes[host]
        process.join()  # its exit status may arrive after its end
        if host in processes.failed:
            click.echo(
                f"error: host {host} of {name} ended with status {process.exitcode}; the exchange continues without it",
                err=True,
            )
        elif all(one.exitcode == 0 for one in processes.processes):
            click.echo(f"the day of {name} has ended ({processes.status}); the exchange continues until Ctrl-C")

    def stop(self) -> None:
        """See TraderProcesses."""
        self._stopping.set()
        if self._processes is not None:
            self._processes.stop()

    def raise_failure(self) -> None:
        """See TraderProcesses. Raises SimulationError."""
        if self._processes is not None and (failed := self._processes.failed):
            raise SimulationError(
                f"expected the {self._options.hosts} hosts of {self._population.name} to trade until the end, got an error in host "
                f"{', '.join(map(str, failed))}; see above"
            )


def match_symbols(population: PopulationConfig, settings: ExchangeConfig) -> PopulationConfig:
    """The population with symbols of the exchange: its own names if the exchange has them, otherwise as many names of the exchange, in order.

    Raises PopulationError if the exchange has neither, or another tick size.
    """
    ticks = {symbol.name: symbol.tick_size for symbol in settings.symbols}
    own = dict(zip(population.symbol_names, population.tick_sizes, strict=True))
    if own.keys() <= ticks.keys():
        matched = population
    elif len(ticks) == len(own) and all(symbol == SymbolConfig(name=symbol.name) for symbol in population.symbols):
        own = dict.fromkeys(ticks, population.tick_size)
        matched = population.model_copy(update={"symbols": [SymbolConfig(name=name) for name in ticks]})
    else:
        raise PopulationError(
            f"symbols: expected those of {population.name} ({', '.join(own)}), or as many if they have no settings of their own, got "
            f"{', '.join(ticks)}; leave --symbols out, or start with --symbols {_option(own)}"
        )
    for name, tick_size in own.items():
        if Decimal(ticks[name]) != Decimal(tick_size):
            raise PopulationError(
                f"symbols: expected a tick size of {tick_size} for {name}, as {population.name} has, got {ticks[name]}; start with "
                f"--symbols {_option(own)}"
            )
    rules = set(MarketRules.model_fields)
    for symbol in settings.symbols:
        if (
            population.has_rules
            and symbol.name in own
            and symbol.model_dump(include=rules) != population.market.model_dump()
        ):
            raise PopulationError(
                f"symbols.{symbol.name}: expected the rules of {population.name} (market), got others; leave them and --symbols out"
            )
    return matched


def _option(tick_sizes: dict[str, str]) -> str:
    """The argument of --symbols for symbols with these tick sizes."""
    return ",".join(f"{name}={tick_size}" for name, tick_size in tick_sizes.items())


def own_endpoint(endpoint: str) -> str:
    """The endpoint at which a process on this machine reaches an exchange that listens on `endpoint`."""
    host = endpoint.removeprefix("tcp://").rpartition(":")[0]
    return f"tcp://127.0.0.1:{endpoint_port(endpoint)}" if host in ANY_ADDRESS else endpoint
