"""`serl flow`: trains generated order flow on real days, continues days with it, and changes it by scenarios."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.ranges import FloatRange

if TYPE_CHECKING:
    from serl.agents.calibration.flow.train import TrainedFlow

ROWS = {
    "floor": "real against real", "ceiling": "training hours", "flow": "generated flow", "baseline": "zero intelligence",
}  # fmt: skip


@click.group(epilog="Example: serl flow train GOOG_2012-06-21_10.zip -o goog-flow.yaml")
def flow() -> None:
    """Train order flow that is generated event by event."""


@flow.command("train", epilog="Example: serl flow train GOOG_2012-06-21_10.zip -o goog-flow.yaml")
@click.argument("days", metavar="DAY...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The population to write (YAML).")
@click.option("--train", default="10:00-13:00", show_default=True, help="Training hours.")
@click.option("--score", default="13:00-16:00", show_default=True, help="Held-out hours for the score; never trained on.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 1000), help="Seed of the training and the simulations.")  # fmt: skip
@click.option("--score-seeds", default=5, show_default=True, type=click.IntRange(1), help="Number of simulations for the score.")  # fmt: skip
@click.option(
    "--test-day", "test_days", multiple=True, type=click.Path(path_type=Path),
    help="A day to score in the same hours, never trained on; repeat it for several.",
)  # fmt: skip
@click.option("--symbol", help="Symbol of the day; by default the first.")
@click.option("--levels", default=0, type=click.IntRange(0, 10), help="Levels per side; 0: as many as the day shows, at most 10.")  # fmt: skip
def train_command(
    days: tuple[Path, ...], output: Path, train: str, score: str, seed: int, score_seeds: int, test_days: tuple[Path, ...], symbol: str | None,
    levels: int,
) -> None:  # fmt: skip
    """Train a network on the messages of the training hours of one or more days (day files or LOBSTER zip files).

    Writes a population whose one trader generates the whole flow, for `serl simulate`, `serl exchange start --with` and other commands that take a
    population, and OUTPUT.json with the scores in held-out hours.
    """
    import json

    from serl.extras import require

    require("the training of a flow", "torch", "pyarrow", extra="learning")
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from serl.agents.calibration.calibrate import write_population
    from serl.agents.calibration.cli import population_name
    from serl.agents.calibration.days import NamedDay
    from serl.agents.calibration.flow.train import ATTEMPTS, VARIANTS, FlowPlan, train_flow
    from serl.agents.calibration.flow.training import EPOCHS_MAX
    from serl.agents.realism.days import load_day, parse_window
    from serl.exchange.atomic_file import require_other_file

    require_other_file(output, *days, *test_days)
    plan = FlowPlan(
        population_name(output), parse_window(train, "--train"), parse_window(score, "--score"), seed, score_seeds
    )
    console = Console()
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[doing]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        networks = len(VARIANTS) * ATTEMPTS
        task = progress.add_task("train", total=networks * (EPOCHS_MAX + 1) + 2, doing="replaying the days")
        fitted, tests = ([NamedDay(path.name, load_day(path)) for path in paths] for paths in (days, test_days))
        found = train_flow(
            fitted, plan, tests=tests, symbol=symbol, levels=levels,
            on_epoch=lambda: progress.update(task, advance=1, doing="training"),
            on_score=lambda name: progress.update(task, advance=1, doing=f"simulating: {ROWS.get(name, name)}"),
        )  # fmt: skip
    sources = ", ".join(day.name for day in found.days if day.train is not None)
    write_population(found.population, output, [f"generated flow, trained on {train} of {sources}"])
    output.with_name(output.name + ".json").write_text(json.dumps(found.to_json(), indent=1, allow_nan=False) + "\n")
    _print_scores(console, found, score)
    click.echo(f"wrote {output} and {output.name}.json")


@flow.command(
    "continue", epilog="Example: serl flow continue goog-flow.yaml GOOG_2012-06-21_10.zip --at 13:00 -o continued.yaml"
)
@click.argument("flow_file", metavar="FLOW", type=click.Path(path_type=Path))
@click.argument("day", type=click.Path(path_type=Path))
@click.option("--at", required=True, help="Time of the day, like 13:00 or 13:00:30.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The population to write (YAML).")
@click.option("--symbol", help="Symbol of the day; by default the first.")
def continue_command(flow_file: Path, day: Path, at: str, output: Path, symbol: str | None) -> None:
    """Let a trained FLOW continue a DAY (a day file or LOBSTER zip file) from a time on.

    Writes a population that opens at this time, with the orders of the day's book and their ages. `serl simulate` with
    several seeds gives several continuations.
    """
    from serl.extras import require_day_files

    require_day_files()
    from serl.agents.calibration.calibrate import write_population
    from serl.agents.calibration.cli import population_name
    from serl.agents.calibration.flow.continuing import continued
    from serl.agents.realism.days import day_origin, load_day
    from serl.agents.traders.population import load_population
    from serl.exchange.atomic_file import require_other_file
    from serl.exchange.config import time_of_day_ns
    from serl.history.day import select_symbol

    require_other_file(output, flow_file, day)
    at_ns, population, history = time_of_day_ns(at, "--at"), load_population(flow_file), load_day(day)
    if symbol is not None:
        history = select_symbol(history, symbol)
    found = continued(population, history, at_ns, population_name(output))
    write_population(found, output, [f"{population.name} continues {day_origin(history)} at {at}"])
    click.echo(f"wrote {output}: {found.open} to {found.close}, {found.name}")


@flow.command("scenario", epilog="Example: serl flow scenario goog-flow.yaml --volatility 2 -o stressed.yaml")
@click.argument("flow_file", metavar="FLOW", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The population to write (YAML).")
@click.option(
    "--volatility", default=1.0, show_default=True, type=FloatRange(0.1, 10),
    help="Factor on the volatility; events arrive at its square times the rate.",
)  # fmt: skip
@click.option(
    "--value-lean", type=FloatRange(0, 10),
    help="How strongly the flow follows the value, which news of kind `value` move; 0: not at all.  [default: as in FLOW]",
)  # fmt: skip
def scenario_command(flow_file: Path, output: Path, volatility: float, value_lean: float | None) -> None:
    """Change what a FLOW does without training: its volatility, or a price path that it follows.

    The path comes from news of kind value: `serl simulate OUTPUT --news path.jsonl`, or `serl news send` to an exchange.
    """
    from serl.agents.calibration.calibrate import write_population
    from serl.agents.calibration.cli import population_name
    from serl.agents.calibration.flow.population import flow_profile, in_scenario
    from serl.agents.traders.population import load_population
    from serl.exchange.atomic_file import require_other_file

    require_other_file(output, flow_file)
    population = load_population(flow_file)
    found = in_scenario(population, volatility, value_lean, population_name(output))
    write_population(
        found,
        output,
        [f"{population.name} with {volatility:g} times the volatility, value_lean {flow_profile(found).value_lean:g}"],
    )
    click.echo(f"wrote {output}")


def _print_scores(console: object, found: "TrainedFlow", hours: str) -> None:
    from rich.console import Console
    from rich.table import Table

    assert isinstance(console, Console)
    console.print(f"{found.messages:,} messages; mean L1 of simulated training hours, of each network:")
    for one in found.tried:
        chosen = ", chosen" if one is found.best else ""
        console.print(f"  {one.variant}: {one.simulated_l1:.3f}, {min(one.trained.nats):.3f} nats a message{chosen}")
    for tests, title in ((False, "training days"), (True, "test days")):
        scored = found.scored(tests=tests)
        if not scored:
            continue
        table = Table(title=f"{title}, {hours}, {found.plan.score_seeds} simulations")
        for head in ("", "mean L1", "facts of 11", "signs", "messages"):
            table.add_column(head, justify="left" if not head else "right", no_wrap=True)
        for name, one in scored.items():
            low, high = one.mean_l1.interval
            interval = f" [{low:.3f}, {high:.3f}]" if low == low else ""
            table.add_row(
                ROWS[name], f"{one.mean_l1.mean:.3f}{interval}".replace("[", "\\["), one.facts_text, f"{one.signs_shared.mean:.1f}",
                f"{sum(one.messages) / len(one.messages):,.0f}",
            )  # fmt: skip
        console.print(table)
