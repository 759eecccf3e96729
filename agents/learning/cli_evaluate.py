"""`serl evaluate`: policies on the same held-out orders, one table."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from serl.agents.learning.environments import Scenario
    from serl.agents.learning.evaluation import Contender, Evaluation
    from serl.agents.learning.market_config import MarketConfig

FILE = click.Path(path_type=Path)


@click.command(epilog="Example: serl evaluate vwap passive runs/bars --config bars --market nasdaq.parquet")
@click.argument("policies", nargs=-1)
@click.option("--market", "data", type=FILE, multiple=True, help="Bars or a day with a book; may be repeated.")
@click.option(
    "--config", type=FILE, help="Settings of training whose `market` is used, but for the options given here."
)
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(["static", "replay", "dynamic"]),
    help="Of the market; may be repeated, one table each.",
)  # fmt: skip
@click.option("--population", help="Of the dynamic market: shipped, or a YAML file.")
@click.option(
    "--part", default="test", show_default=True, type=click.Choice(["train", "validation", "test", "unseen"]),
    help="Of the data; choose settings on `validation`.",
)  # fmt: skip
@click.option("--hours", help="Like 14:00-15:45, instead of those of the part.")
@click.option(
    "--curve", type=FILE, help="vwap: a file of `serl volume-curve`; of bars it is fitted on the training part."
)
@click.option("--episodes", default=512, show_default=True, type=click.IntRange(min=2), help="Parent orders.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Of the parent orders.")
@click.option("--output", type=FILE, default=Path("reports"), show_default=True, help="Folder of the tables.")
def evaluate(
    policies: tuple[str, ...], data: tuple[Path, ...], config: Path | None, kinds: tuple[str, ...], population: str | None,
    part: str, hours: str | None, curve: Path | None, episodes: int, seed: int, output: Path,
) -> None:  # fmt: skip
    """Works the same parent orders with TWAP and each of POLICIES; writes evaluation.md, .csv, .html and .json.

    POLICIES are schedules (twap, vwap, pov, ac, aggressive, passive), files of learnt ones, or folders of runs; twap:limit is twap with
    limit orders (modes: market, limit, hybrid).
    """
    from rich.console import Console

    from serl.agents.learning.market_config import MarketConfig, with_changes
    from serl.agents.learning.table import Section, note, on_screen, write_tables

    market = _market_of(config) if config else MarketConfig()
    given = {"data": [*map(str, data)] or None, "population": population, "part": part, "hours": hours}
    sections = []
    for kind in kinds or (market.kind,):
        evaluation, facts = _in(with_changes(market, given | {"kind": kind}), policies, curve, episodes, seed)
        Console().print(on_screen(evaluation))
        click.echo(f"{note(evaluation)}\n{facts}\n")
        sections.append(Section(evaluation, facts))
    click.echo(f"wrote {', '.join(map(str, write_tables(sections, output)))}")


def _market_of(config: Path) -> "MarketConfig":
    """That of settings of training, which name networks too: PyTorch is needed for them, and for learnt policies, not for schedules."""
    from serl.agents.learning.training import load_config

    return load_config(config).market


def _in(
    market: "MarketConfig", policies: tuple[str, ...], curve: Path | None, episodes: int, seed: int
) -> "tuple[Evaluation, str]":
    """What happened in one market, and a line of facts."""
    from serl.agents.learning.environments import Scenario

    scenario = Scenario(market)
    contenders = [contender(text, scenario, curve) for text in policies]
    return _watched(scenario, contenders, episodes, seed), _facts(scenario, contenders)


def contender(text: str, scenario: "Scenario", curve: Path | None) -> "Contender":
    """Of NAME, NAME:MODE, a file or a folder; ConfigError if it is nothing of these, or cannot work in that mode."""
    from serl.agents.execution.policies.choose import NAMES, choose
    from serl.agents.execution.policies.policy import check_mode
    from serl.agents.execution.policies.volume import Vwap
    from serl.agents.learning.evaluation import Contender

    name, _, mode = text.partition(":") if text.partition(":")[0] in NAMES else (text, "", "")
    fitted = scenario.source.curve() if name == "vwap" and curve is None else None
    policy = Vwap(fitted) if fitted else choose(name if name in NAMES else str(_file_of(Path(name))), curve=curve)
    used = mode or policy.modes[0]
    check_mode(policy, used)  # better now than when the days are there
    return Contender(text if name in NAMES else policy.name, policy, used)


def _file_of(path: Path) -> Path:
    """A learnt policy's, where the folder of its run is given too."""
    if not path.is_dir():
        return path
    from serl.agents.learning.training import POLICY

    return path / POLICY


def _watched(scenario: "Scenario", contenders: "Sequence[Contender]", episodes: int, seed: int) -> "Evaluation":
    from rich.progress import Progress

    from serl.agents.learning.evaluation import evaluate as compare

    with Progress(transient=True) as progress:
        task = progress.add_task("evaluating")
        return compare(
            scenario, contenders, episodes, seed,
            lambda done, every: progress.update(task, completed=done, total=every),
        )  # fmt: skip


def _facts(scenario: "Scenario", contenders: "Sequence[Contender]") -> str:
    """Where orders and learnt policies come from."""
    config, source = scenario.config, scenario.source.facts()
    where = f"part {config.part}" if config.hours is None else f"hours {config.hours}"
    learnt: list[Any] = [one.policy for one in contenders if one.policy.interface is not None]
    return " ".join(
        [
            f"{config.kind} market, {source['data']} (fingerprint {source.get('fingerprint', '-')}), {where},",
            f"{config.duration_s:g} s windows, decisions every {config.interval_s:g} s,",
            f"{config.share_min:.2%} to {config.share_max:.2%} of the expected volume.",
            *(f"{one.name}: {one.facts['steps']:,} steps, seed {one.facts['seed']}." for one in learnt),
        ]
    )
