"""`serl impact`: measures what a metaorder does to the mid, on a replayed day or in a simulated market."""

from pathlib import Path

import click
from click.core import ParameterSource

from serl.agents.traders.builtin import POPULATION
from serl.ranges import FloatRange

REPLAY_OPTIONS = ("side", "window", "interval", "grid", "symbol", "answering")
SIMULATED_OPTIONS = ("seeds", "seed", "participation", "duration")
NOT_VALIDITY = ("side", "interval", "grid", "participation")
NOT_OFI = ("side", "grid", "answering", "qty_share", "seeds", "participation", "duration", "validity")
OFI_OPTIONS = ("horizons", "split")
REPLAY_SHARES, SIMULATED_SHARES = ".01,.03,.1", ".001,.003,.01,.03,.1"


@click.command(
    epilog="Example: serl impact amzn.day --side buy --window 10:00-11:00 && serl impact amzn.day --ofi && serl impact --simulated goog.yaml --seeds 20"
)
@click.argument("day", type=click.Path(path_type=Path), required=False)
@click.option("--simulated", type=POPULATION, help="Measure in markets of this population instead of a DAY.")
@click.option(
    "--qty-share",
    help=f"Sizes as shares of the window's volume [{REPLAY_SHARES}]; with --simulated, of the day's volume [{SIMULATED_SHARES}].",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("impact.json"), show_default=True)
@click.option("--side", type=click.Choice(["buy", "sell"]), help="DAY: the metaorder's side.")
@click.option("--window", help="DAY: when the metaorder is worked, like 10:00-11:00; with --ofi, the hours.")
@click.option(
    "--interval",
    default=30.0,
    show_default=True,
    help="DAY: seconds between child orders; with --ofi, of an interval [10].",
)
@click.option("--grid", default=5.0, show_default=True, help="DAY: seconds between points of the curve.")
@click.option("--symbol", help="DAY: one of its symbols; the first by default.")
@click.option(
    "--answering", type=click.Choice(["fitted", "square_root"]),
    help="DAY: let it give way to the metaorder, with the impact fitted on the day or that of the square-root law; with --validity in "
    "addition to the plain replay.",
)  # fmt: skip
@click.option(
    "--seeds", default=20, show_default=True, type=click.IntRange(1),
    help="POPULATION: number of markets, each run with and without the metaorder.",
)  # fmt: skip
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="POPULATION: seed of the first one.")
@click.option(
    "--participation", default=0.15, show_default=True, type=FloatRange(0, 0.9, min_open=True),
    help="POPULATION: the metaorder's share of the volume (POV).",
)  # fmt: skip
@click.option(
    "--duration", type=FloatRange(0, 86_400, min_open=True),
    help="POPULATION: work every size evenly over these seconds (TWAP) instead.",
)  # fmt: skip
@click.option(
    "--validity",
    is_flag=True,
    help="Check whether POPULATION, DAY or both respond as real markets do: buys and sells, sizes, durations, decay.",
)
@click.option(
    "--ofi", is_flag=True, help="Fit moves of the mid to order-flow imbalance, in DAY or in a market of POPULATION."
)
@click.option(
    "--horizons", default="1,10,60", show_default=True, help="With --ofi: forecast moves over so many seconds."
)
@click.option("--split", help="With --ofi: fit the hours before, test those after, like 13:00; by default the middle.")
@click.option(
    "--json", "as_json", is_flag=True, help="With --validity or --ofi: print all numbers as JSON instead of tables."
)
@click.pass_context
def impact(
    context: click.Context, day: Path | None, simulated: str | None, qty_share: str | None, output: Path, side: str | None,
    window: str | None, interval: float, grid: float, symbol: str | None, seeds: int, seed: int, participation: float,
    duration: float | None, validity: bool, ofi: bool, horizons: str, split: str | None, as_json: bool, answering: str | None,
) -> None:  # fmt: skip
    """Measure what metaorders of several sizes do to the mid: the mid with the metaorder minus the mid without it.

    With DAY, a TWAP is worked in a replay. Nobody reacts in a replay: the impact is mechanical. With --answering the day gives way.

    With --simulated, metaorders are worked in markets of POPULATION, whose traders react. I / sigma = Y (Q / V)^delta is
    fitted to their impact.

    With --validity, both sides, several sizes and durations are worked, and checks show whether the response is that of real
    markets. --seeds is then also the number of start times in a DAY, --window the hours for them, --duration 600 by default.

    With --ofi, no order is sent: moves of the mid are fitted to the order-flow imbalance of the same interval (Cont, Kukanov, Stoikov 2014)
    and of the one before, and tested on later hours.

    Writes an .html, .json and .png file with the name of OUTPUT.
    """
    from serl.agents.pages.page import check_path
    from serl.extras import require_reports

    if ofi:
        _fit_ofi(context, day, simulated, seed, interval, horizons, window, split, symbol, output, as_json)
        return
    _reject_options(context, OFI_OPTIONS, "--ofi", "another measurement")
    if validity:
        _check_validity(
            context, day, simulated, qty_share, output, window, symbol, range(seed, seed + seeds), duration, as_json, answering
        )  # fmt: skip
        return
    if as_json:
        raise click.UsageError(
            "expected --json with --validity or --ofi only, got it alone; the numbers are in the .json file", context
        )
    _require_one(context, day, simulated)
    require_reports()
    check_path(output.with_suffix(".html"), day, simulated)  # fail now, not after the measurement
    if simulated is not None:
        _reject_options(context, REPLAY_OPTIONS, "a DAY", "--simulated")
        shares = _parse_shares(SIMULATED_SHARES if qty_share is None else qty_share)
        _measure_simulated(simulated, shares, range(seed, seed + seeds), participation, duration or 0.0, output)
    elif day is not None:
        _reject_options(context, SIMULATED_OPTIONS, "--simulated", "a DAY")
        side, window = _require(context, "--side", side), _require(context, "--window", window)
        shares = _parse_shares(REPLAY_SHARES if qty_share is None else qty_share)
        _measure_replay(day, side, shares, window, interval, grid, symbol, output, answering)


def _fit_ofi(
    context: click.Context, day: Path | None, simulated: str | None, seed: int, interval_s: float, horizons: str,
    window: str | None, split: str | None, symbol: str | None, output: Path, as_json: bool,
) -> None:  # fmt: skip
    from serl.agents.impact.cli_ofi import INTERVAL_S, measure_ofi, parse_horizons
    from serl.extras import require_reports

    _reject_options(context, NOT_OFI, "another measurement", "--ofi")
    _require_one(context, day, simulated)
    if simulated is None:
        _reject_options(context, ("seed",), "--simulated", "a DAY")
    require_reports()
    given = context.get_parameter_source("interval") == ParameterSource.COMMANDLINE
    measure_ofi(
        day, simulated, seed, interval_s if given else INTERVAL_S, parse_horizons(horizons), window, split, symbol, output, as_json
    )  # fmt: skip


def _require_one(context: click.Context, day: Path | None, simulated: str | None) -> None:
    """Raises UsageError unless exactly one of the two is given."""
    if (day is None) == (simulated is None):
        got = "neither" if day is None else "both"
        raise click.UsageError(f"expected either DAY or --simulated POPULATION, got {got}; give one of them", context)


def _check_validity(
    context: click.Context, day: Path | None, simulated: str | None, qty_share: str | None, output: Path,
    window: str | None, symbol: str | None, seeds: range, duration_s: float | None, as_json: bool, answering: str | None,
) -> None:  # fmt: skip
    from serl.agents.impact.cli_validity import DURATION_S, SHARES, measure_validity
    from serl.extras import require_reports

    _reject_options(context, NOT_VALIDITY, "a single measurement", "--validity")
    if day is None and simulated is None:
        raise click.UsageError(
            "expected --simulated POPULATION, a DAY or both with --validity, got neither; give one", context
        )
    if day is None:
        _reject_options(context, ("window", "symbol", "answering"), "a DAY", "--simulated")
    require_reports()
    shares = _parse_shares(SHARES if qty_share is None else qty_share)
    measure_validity(
        day, simulated, shares, seeds, duration_s or DURATION_S, window, symbol, output, as_json, answering
    )


def _reject_options(context: click.Context, names: tuple[str, ...], needed: str, given: str) -> None:
    """Raises UsageError if the command line has an option of the other kind of market."""
    for name in names:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"expected --{name.replace('_', '-')} with {needed} only, got it with {given}; leave it out", context
            )


def _require(context: click.Context, option: str, value: str | None) -> str:
    """The option's value. Raises UsageError if it was not given."""
    if value is None:
        raise click.UsageError(f"expected {option} with a DAY, got none; add it", context)
    return value


def _parse_shares(text: str) -> list[float]:
    """Parses different numbers like '.01,.1'. Raises ImpactError for anything else."""
    from serl.agents.impact.errors import ImpactError

    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(0 < share <= 1 for share in shares) or len({*shares}) < len(shares):
        raise ImpactError(
            f"--qty-share: expected shares above 0 and up to 1, each once, got {text!r}; separate them by commas, like .01,.03,.1"
        )
    return shares


def _step_ns(option: str, seconds: float) -> int:
    """Converts seconds to nanoseconds. Raises ImpactError for a time that is not a step of a day."""
    from serl.agents.impact.errors import ImpactError

    if not 0.001 <= seconds <= 86_400:
        raise ImpactError(f"{option}: expected 0.001 to 86400 s, got {seconds:g}; give seconds, like 5")
    return round(seconds * 1e9)


def _measure_replay(
    day: Path, side: str, shares: list[float], window: str, interval_s: float, grid_s: float, symbol: str | None,
    output: Path, answering: str | None,
) -> None:  # fmt: skip
    from rich.console import Console

    from serl.agents.execution.answering.model import NONE
    from serl.agents.impact.replay import replay_impact
    from serl.agents.impact.replay_report import summary_table, write_replay_impact
    from serl.agents.realism.days import day_origin, load_day, parse_window
    from serl.exchange.records import Side

    times = parse_window(window, "--window")
    interval_ns, grid_step_ns = _step_ns("--interval", interval_s), _step_ns("--grid", grid_s)
    history = load_day(day)
    found = replay_impact(
        history, Side[side.upper()], shares, times, interval_ns=interval_ns,
        grid_step_ns=grid_step_ns, symbol=symbol, answers=answering or NONE,
    )  # fmt: skip
    written = write_replay_impact(found, day.name, day_origin(history), output)
    Console().print(summary_table(found, f"{side} {found.symbol}, {window}: impact in ticks"))
    if found.answering is not None:
        click.echo(found.answering.describe())
    click.echo(f"wrote {', '.join(map(str, written))}")


def _measure_simulated(
    population: str, shares: list[float], seeds: range, participation: float, duration_s: float, output: Path
) -> None:  # fmt: skip
    from rich.console import Console
    from rich.progress import Progress

    from serl.agents.impact.simulated import measure_simulated_impact
    from serl.agents.impact.simulated_report import law_lines, summary_table, write_simulated_impact
    from serl.agents.traders.population import load_population

    config = load_population(population)
    console = Console()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("markets", total=len(seeds) * (1 + len(shares)))
        found = measure_simulated_impact(
            config, shares, list(seeds), participation=participation, duration_s=duration_s,
            on_market=lambda: progress.update(task, advance=1),
        )  # fmt: skip
    written = write_simulated_impact(found, config, output)
    console.print(summary_table(found, config.name))
    for line in law_lines(found.law):
        click.echo(line)
    click.echo(f"wrote {', '.join(map(str, written))}")
