"""`serl exchange`: start, query, operate and stop an exchange. `serl keys`: CURVE keys."""

import contextlib
import gc
import logging
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serl.exchange.banner import print_banner, speed_text
from serl.exchange.cli_balances import deposit, print_balances, withdraw
from serl.exchange.cli_news import news
from serl.exchange.cli_request import DEFAULT_ENDPOINT, Request, exchange_options, symbol_number
from serl.exchange.errors import ConfigError
from serl.exchange.log import log, log_to_stderr

if TYPE_CHECKING:
    from serl.exchange.config import ExchangeConfig
    from serl.exchange.trader_processes import TraderProcesses

SLOW_START_S = 3.0
"""A start that takes longer prints that it is compiling."""
FORECASTER = click.option(
    "--forecaster",
    type=click.Path(path_type=Path, dir_okay=False),
    help="--with: a file of `serl signals train`; adds a forecaster, whose forecasts the other traders can read.",
)


@click.group(epilog="Example: serl exchange start --symbols AMZN,GOOG")
def exchange() -> None:
    """A limit order book exchange that runs as a server."""


for command in (news, deposit, withdraw):
    exchange.add_command(command)


def _clock_overrides(text: str) -> dict[str, Any]:
    kind, _, speed = text.partition(":")
    if kind in ("scaled", "lockstep") and speed:
        try:
            return {"kind": kind, "speed": float(speed)}
        except ValueError:
            raise ConfigError(f"expected --clock {kind}:K with a number K, like {kind}:60, got {text!r}") from None
    if speed or kind not in ("live", "scaled", "lockstep"):
        raise ConfigError(f"expected --clock live, scaled:K, lockstep or lockstep:K, got {text!r}")
    return {"kind": kind}


def _check_clock_options(kind: str, start: str | None, participants: int | None) -> None:
    """Raises UsageError for an option that a clock of this kind would ignore."""
    if start and kind == "live":
        raise click.UsageError("--clock-start: expected a scaled or lockstep clock, got live; add --clock scaled:K")
    if participants and kind != "lockstep":
        raise click.UsageError(f"--participants: expected a lockstep clock, got {kind}; add --clock lockstep")


def _overrides(**options: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if options["symbols"] is not None or options["directory"]:
        values["symbols"] = [{"name": name, "tick_size": tick} for name, tick in _ticks(options)]
    if options["endpoint"]:
        values["endpoint"] = options["endpoint"]
    journal = {"folder": options["journal"] and str(options["journal"]), "durability": options["durability"]}
    if given := {name: value for name, value in journal.items() if value}:
        values["journal"] = given
    clock = _clock_overrides(options["clock"]) if options["clock"] else {}
    if options["clock_start"]:
        clock["start"] = options["clock_start"]
    if options["hold"]:
        clock["held"] = True
    if options["participants"]:
        clock["participants"] = options["participants"]
    if clock:
        values["clock"] = clock
    if options["curve"]:
        values["login"] = {"curve_keys": str(options["curve"])}
    return values


def _ticks(options: dict[str, Any]) -> list[tuple[str, str]]:
    """(symbol, tick size) of --symbols or --directory."""
    from serl.exchange.directory import read_directory, ticks_of

    if options["directory"] is None:
        return ticks_of(options["symbols"].split(","))
    if options["symbols"] is not None or not options["endpoint"]:
        raise click.UsageError(
            "expected --directory with --endpoint and without --symbols; the directory lists the symbols of the endpoint"
        )
    return list(read_directory(options["directory"]).symbols_at(options["endpoint"]).items())


@exchange.command(epilog="Example: serl exchange start --symbols AMZN,GOOG --journal ./journal --clock lockstep")
@click.option(
    "--config", type=click.Path(path_type=Path), help="YAML file whose settings override configs/exchange.yaml."
)
@click.option("--symbols", help="Symbol names; add =TICK for a tick size other than 0.01: AMZN,BTC=0.5")
@click.option(
    "--endpoint",
    help=f"Orders socket; the feed, query and admin sockets use the next three ports. [{DEFAULT_ENDPOINT}]",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="File that lists which exchange trades which symbols: this one has those of --endpoint.",
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    help="Folder for the journal. Without it no state survives the process.",
)
@click.option(
    "--durability",
    type=click.Choice(["interval", "batch"]),
    help="When orders are acknowledged: before the sync to the disk each second (interval), or only after it (batch). [interval]",
)
@click.option(
    "--clock", help="live (default), scaled:K (K times real time), lockstep, or lockstep:K (at most K times real time)."
)
@click.option("--clock-start", help="Time of day at which a scaled or lockstep clock starts, like 09:30.")
@click.option(
    "--hold", is_flag=True, help="Hold the clock (scaled:K, lockstep:K) until it is set; `serl replay` sets it."
)
@click.option("--participants", type=int, help="Lockstep: wait until this many participants are connected and ready.")
@click.option(
    "--curve",
    type=click.Path(path_type=Path),
    help="Key folder of `serl keys new`: encrypts all sockets and permits any address.",
)
@click.option(
    "--log",
    "log_form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the log on stderr; json: one object a line.",
)
@click.option(
    "--with",
    "population",
    help="Population of traders that trade on the exchange: a YAML file, or the name of one that comes with serl, like liquid.",
)
@click.option("--hosts", type=click.IntRange(1), help="--with: number of host processes. [1]")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="--with: seed of the traders. [1]")
@click.option(
    "--flow",
    type=click.Path(path_type=Path),
    help="--with: folder for counts of what each kind of trader sends, for `serl dashboard --flow`.",
)
@FORECASTER
@click.pass_context
def start(
    context: click.Context, /, config: Path | None, log_form: str, population: str | None, hosts: int | None, seed: int | None, flow: Path | None,
    forecaster: Path | None, **options: Any,
) -> None:  # fmt: skip
    """Start an exchange and serve it until Ctrl-C.

    --with POPULATION also starts traders, in processes of their own, as `serl agents start` does. The exchange then has the population's symbols,
    unless others are given, and a scaled or lockstep clock starts at the population's open. If a host of traders dies, the exchange continues and the
    exit status reports the failure.
    """
    began = time.perf_counter()
    log_to_stderr(log_form)
    from serl.exchange.config import load_config
    from serl.exchange.private_files import warn_if_shared
    from serl.exchange.trader_processes import trader_processes

    traders = trader_processes(context, population, hosts, seed, flow, forecaster)
    settings = load_config(config, _overrides(**options), None if traders is None else traders.defaults)
    _check_clock_options(settings.clock.kind, options["clock_start"], options["participants"])
    if config is not None and settings.login.has_inline_tokens:
        warn_if_shared(config, "configuration with tokens")
    _serve(settings, traders, began)


def _serve(settings: "ExchangeConfig", traders: "TraderProcesses | None", began_s: float) -> None:
    """Serves an exchange, with these traders beside it, until it is stopped. began_s: the `time.perf_counter` value when the command began."""
    from serl.exchange.code_cache import BACKGROUND_NICENESS, precompiling
    from serl.garbage import collect_while_serving

    slow = threading.Timer(SLOW_START_S, click.echo, ["compiling: the first start takes 10 to 30 s"], {"err": True})
    slow.daemon = True
    slow.start()
    gc.disable()  # a compiler creates many long-lived objects
    with contextlib.ExitStack() as cleanup:
        if traders is not None:
            cleanup.callback(traders.stop)
            traders.start(settings)
        with precompiling("book"):
            from serl.exchange.server import Exchange  # imports the compiler, which takes a while
            from serl.exchange.warm import warm_loop

            if traders is not None and settings.clock.kind == "scaled":
                warm_loop()
                traders.wait_until_compiled()  # a scaled clock does not wait for them
            server = Exchange(settings)
        gc.enable()

        def ready() -> None:
            slow.cancel()
            cleanup.enter_context(precompiling("rulebook", niceness=BACKGROUND_NICENESS))
            print_banner(settings, server, time.perf_counter() - began_s, traders)
            log(
                "ready", "exchange ready", level=logging.INFO, endpoints=settings.endpoints,
                epoch=server.core.journal.epoch,
            )  # fmt: skip
            collect_while_serving()

        reason = server.run(ready, traders.stop if traders is not None else lambda: None)
    click.echo(f"exchange stopped ({reason}): {server.core.command_sequence:,} commands journaled")
    log("stopped", "exchange stopped", level=logging.INFO, reason=reason, commands=server.core.command_sequence)
    if traders is not None:
        traders.raise_failure()


@exchange.command("compile", epilog="Example: serl exchange compile --with liquid")
@click.option("--with", "population", help="Compile what the traders of this population run, too.")
@FORECASTER
@click.pass_context
def compile_ahead(context: click.Context, population: str | None, forecaster: Path | None) -> None:
    """Precompile everything an exchange runs, including every order type, for example in an image. Later starts load it from the cache."""
    began = time.perf_counter()
    from serl.exchange.code_cache import precompiling, require_writable
    from serl.exchange.trader_processes import trader_processes

    require_writable()
    traders = trader_processes(context, population, None, None, None, forecaster)
    click.echo(
        "compiling what is not in the cache yet; the first time takes 10 to 30 s, longer on a busy machine", err=True
    )
    gc.disable()  # the compiler creates many long-lived objects
    with contextlib.ExitStack() as cleanup:
        processes = cleanup.enter_context(precompiling("rulebook", "book"))
        from serl.exchange.config import load_config
        from serl.exchange.market import Market
        from serl.exchange.ports import free_port

        settings = {"endpoint": f"tcp://127.0.0.1:{free_port()}", "full_rule_book": True}
        configured = load_config(None, settings, None if traders is None else traders.defaults)
        if traders is not None:
            cleanup.callback(traders.stop)
            traders.start(configured)
        from serl.exchange.server import Exchange
        from serl.exchange.warm import warm_loop

        warm_loop()
        for process in processes:
            process.wait()
        server = Exchange(configured)
        server.run(lambda: server.stop("everything is compiled"))
        Market().buy(1, 1)  # the library's entry, which no server uses
        if traders is not None:
            traders.wait_until_compiled()
    click.echo(f"compiled in {time.perf_counter() - began:.1f} s")


@exchange.command(epilog="Example: serl exchange status --connect tcp://127.0.0.1:5570")
@exchange_options
def status(request: Request) -> None:
    """Print the symbols, clock and statistics of a running exchange."""
    info = request("queries", "INFO")
    counts = request("queries", "STATISTICS")[5]
    _, symbols, clock, _ = info[5]
    click.echo(f"epoch {info[2]}, clock {clock[0]}{speed_text(clock[1])} at {clock[2]} ns")
    click.echo("symbols " + ", ".join(f"{name} (tick {tick})" for _, name, tick, _ in symbols))
    for name, value in counts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{code} {count:,}" for code, count in value.items()) or "none"
        click.echo(f"{name:20} {value if isinstance(value, str) else f'{value:,}'}")


@exchange.command(epilog="Example: serl exchange stop")
@exchange_options
def stop(request: Request) -> None:
    """Stop a running exchange cleanly."""
    request("admin", "STOP")
    click.echo("stopping")


OPERATIONS = ["end-day", "halt", "resume", "uncross"]
"""Names of CommandKind, in lower case. The commands look the values up when they run, so that `--help` imports no compiler."""
PHASES = ["continuous", "pre-open", "opening", "intraday", "volatility", "closing", "closed"]
"""Names of Phase."""
HALT_REASONS = ["operator", "news", "volatility", "technical", "regulatory"]
"""Names of HaltReason."""


def _enum_value(enum: Any, name: str) -> int:
    return int(enum[name.upper().replace("-", "_")])


@exchange.command("operate", epilog="Example: serl exchange operate halt --symbol AMZN")
@click.argument("operation", type=click.Choice([*OPERATIONS, *PHASES]))
@click.option("--symbol", help="Name of the symbol, if the exchange has several; end-day concerns all.")
@exchange_options
@click.option("--reason", type=click.Choice(HALT_REASONS), help="Reason of a halt, which is published.")
def operate(operation: str, symbol: str | None, request: Request, reason: str | None) -> None:
    """End the day (cancel DAY orders), halt or resume a symbol, change its phase, or hold an auction now."""
    from serl.exchange.records import CommandKind, HaltReason, Phase

    if reason is not None and operation != "halt":
        raise ConfigError(f"expected --reason only with halt, got it with {operation}; leave it out")
    flags = _enum_value(Phase, operation) if operation in PHASES else _enum_value(HaltReason, reason or "none")
    kind = CommandKind.PHASE if operation in PHASES else _enum_value(CommandKind, operation)
    number = 0 if operation == "end-day" else symbol_number(request, symbol)
    request("admin", "OPERATE", int(kind), number, flags)
    click.echo(f"{operation}: done")


@exchange.command("purge", epilog="Example: serl exchange purge alice --side sell")
@click.argument("participant")
@click.option("--symbol", help="Name of the symbol. [all]")
@click.option("--side", type=click.Choice(["buy", "sell"]), help="Side of the orders to cancel. [both]")
@exchange_options
def purge(participant: str, symbol: str | None, side: str | None, request: Request) -> None:
    """Cancel the open orders of a participant."""
    from serl.exchange.records import ALL_SYMBOLS

    number = ALL_SYMBOLS if symbol is None else symbol_number(request, symbol)
    flags = {None: 0, "buy": 1, "sell": 2}[side]
    click.echo(f"{request('admin', 'PURGE', participant, number, flags)[5]} orders cancelled")


@exchange.command("kill", epilog="Example: serl exchange kill alice")
@click.argument("participant")
@click.option("--off", is_flag=True, help="Let the participant send orders again.")
@exchange_options
def kill(participant: str, off: bool, request: Request) -> None:
    """Activate the kill switch of a participant: cancel its open orders and reject new ones until --off. It survives restarts."""
    cancelled = request("admin", "KILL", participant, int(not off))[5]
    click.echo(
        f"{participant} may send orders again" if off else f"{participant} is killed: {cancelled} orders cancelled"
    )


@exchange.command("account", epilog="Example: serl exchange account alice")
@click.argument("participant")
@exchange_options
def account(participant: str, request: Request) -> None:
    """Print the position (lots) and profit (money) of a participant per symbol, with open positions valued at the last trade, and what it has
    of each asset, if it has deposits or balance checks."""
    from serl.exchange.account import Account
    from serl.exchange.records import MICRO

    symbols = {
        number: (name, Decimal(tick) * Decimal(lot)) for number, name, tick, lot in request("queries", "INFO")[5][1]
    }
    found = request("queries", "ACCOUNT", participant)[5]
    click.echo(f"{'symbol':12}{'position':>14}{'cash':>20}{'realised':>20}{'unrealised':>20}{'fees':>20}")
    for symbol, last_ticks, *balances in found:
        (name, unit), balance = symbols[symbol], Account.from_balances(balances)
        ticks = (
            balance.cash_ticks,
            balance.realised_ticks,
            balance.unrealised_ticks(last_ticks),
            Decimal(balance.fees_microticks) / MICRO,
        )
        click.echo(f"{name:12}{balance.position_lots:14,}" + "".join(f"{unit * amount:20,}" for amount in ticks))
    print_balances(request, participant)


@click.group(epilog="Example: serl keys new ./keys")
def keys() -> None:
    """CURVE keys for exchanges that other machines can reach."""


@keys.command(
    epilog="Example: serl keys new ./keys && serl exchange start --endpoint tcp://0.0.0.0:5570 --curve ./keys"
)
@click.argument("folder", type=click.Path(path_type=Path), default=Path("keys"))
def new(folder: Path) -> None:
    """Create a server and a client key pair in FOLDER. Give clients all files except server.key.

    The exchange admits the key in client.public, and those of participants in its configuration; make the latter with `serl keys client`.
    """
    from serl.exchange.keys import new_keys

    new_keys(folder)
    click.echo(f"wrote 4 files to {folder}; keep server.key on the server, copy the other three to clients")


@keys.command(epilog="Example: serl keys client ./keys ./alice")
@click.argument("server", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
def client(server: Path, folder: Path) -> None:
    """Create a key pair for one client in FOLDER, for the exchange whose server.public is in SERVER."""
    from serl.exchange.keys import new_client_keys

    public = new_client_keys(server, folder)
    click.echo(
        f"wrote 3 files to {folder}; give them to the client, and its participant this key in the configuration:"
    )
    click.echo(f'client_key: "{public}"')
