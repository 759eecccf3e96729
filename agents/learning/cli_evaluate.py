"""`serl evaluate`: compares policies on the same held-out orders, in one table."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serl.agents.learning.cli_market import (
    ANSWERS,
    CONFIG,
    CURVE,
    FILLS,
    FOLDER,
    FORECASTER,
    HOURS,
    KINDS,
    MARKET,
    POPULATION_OPTION,
    SEED,
    check_distinct,
    check_used,
    market_settings,
)
from serl.agents.learning.market_config import FILLS_BEFORE
from serl.cluster import LOCAL, on_option

if TYPE_CHECKING:
    from serl.agents.execution.policies.policy import Policy
    from serl.agents.learning.environments import Scenario
    from serl.agents.learning.evaluation import Contender, Evaluation
    from serl.agents.learning.market_config import MarketConfig

RULE = "patience"
FITTED = (RULE, "ac")
"""Rules that are fitted on the training part."""


@click.command(epilog="Example: serl evaluate vwap passive runs/bars --config bars --market nasdaq.parquet")
@click.argument("policies", nargs=-1)
@MARKET
@CONFIG
@click.option(
    "--kind", "kinds", multiple=True, type=KINDS,
    help="Kind of market; may be repeated, with one table each.",
)  # fmt: skip
@POPULATION_OPTION
@click.option(
    "--part", default="test", show_default=True, type=click.Choice(["train", "validation", "test", "unseen"]),
    help="Part of the data; choose settings on `validation`.",
)  # fmt: skip
@FILLS
@click.option(
    "--answers", multiple=True, type=ANSWERS,
    help="replay: whether the day gives way to the orders, and by which impact; may be repeated, with one table each.",
)  # fmt: skip
@FORECASTER
@HOURS
@CURVE
@click.option("--episodes", default=512, show_default=True, type=click.IntRange(min=2), help="Number of parent orders.")
@SEED
@on_option("Where the policies work, each as a task: this machine (the default), or a Ray cluster.")
@click.option("--output", type=FOLDER, default=Path("reports"), show_default=True, help="Folder for the tables.")
def evaluate(
    policies: tuple[str, ...], data: tuple[Path, ...], config: Path | None, kinds: tuple[str, ...], population: str | None,
    part: str, fills: str | None, answers: tuple[str, ...], forecaster: Path | None, hours: str | None, volume_curve: Path | None, episodes: int, seed: int,
    on: str | None, output: Path,
) -> None:  # fmt: skip
    """Work the same parent orders with a TWAP, the patience rule and each of POLICIES; write evaluation.md, .csv, .html and .json.

    POLICIES are schedules (twap, vwap, pov, ac, aggressive, passive), files of trained policies, or folders of runs. twap:limit is a TWAP in
    action mode limit (modes: market, limit, hybrid). The patience rule and ac are fitted on the training part of the data.
    """
    from serl.agents.execution.policies.choose import packages_of
    from serl.extras import require_reports

    for name, given in (("--kind", kinds), ("--answers", answers)):
        check_distinct(name, given)
    trained = {name for policy in policies for name in packages_of(policy)}
    require_reports(*sorted(trained | ({"torch"} if config else set())))
    check_policies("POLICIES", policies)
    from rich.console import Console

    from serl.agents.learning.market_config import with_overrides
    from serl.agents.learning.table import Section, terminal_note, terminal_table, write_tables

    market = market_settings(config)
    overrides = {
        "data": [*map(str, data)] or None,
        "population": population,
        "part": part,
        "hours": hours,
        "fills": fills,
        "forecaster": forecaster,
    }
    kinds = kinds or (market.kind,)
    check_used(kinds, data, population)
    markets = [
        with_overrides(market, overrides | {"kind": kind, "answers": answer})
        for kind, answer in itertools.product(kinds, answers or (market.answers,))
    ]
    sections = []
    for one in markets:
        evaluation, provenance = _evaluate_market(one, policies, volume_curve, episodes, seed, on or LOCAL)
        Console().print(terminal_table(evaluation))
        click.echo(f"{terminal_note(evaluation, output)}\n{provenance}\n")
        sections.append(Section(evaluation, provenance))
    click.echo(f"wrote {', '.join(map(str, write_tables(sections, output)))}")


def _evaluate_market(
    market: "MarketConfig", policies: tuple[str, ...], curve: Path | None, episodes: int, seed: int, on: str
) -> "tuple[Evaluation, str]":
    """Evaluates in one market; returns the evaluation and a line about the origin of its orders and policies."""
    from serl.agents.learning.environments import Scenario

    scenario = Scenario(market)
    contenders = parse_contenders([text for text in policies if text != RULE], scenario, curve)
    rule = parse_contender(RULE, scenario, curve)
    return _evaluate_with_progress(scenario, contenders, episodes, seed, rule, on), provenance(
        scenario, [rule, *contenders]
    )


def fit_rule(name: str, scenario: "Scenario") -> "Policy":
    """Fits the rule with a name in FITTED on the training part."""
    from serl.agents.learning.fitted_rules import fit_almgren_chriss, fit_patience, training_score

    return fit_patience(training_score(scenario)) if name == RULE else fit_almgren_chriss(scenario)


def _policy_file(text: str) -> Path:
    """The file of a trained policy, given this file or the folder of its run."""
    if not Path(text).is_dir():
        return Path(text)
    from serl.agents.learning.training import POLICY

    return Path(text) / POLICY


def check_policies(name: str, texts: Sequence[str]) -> None:
    """Raises ConfigError for a policy that is given twice, also as the folder of its run and as the file in it."""
    check_distinct(name, [str(_policy_file(text).resolve()) if Path(text).exists() else text for text in texts])


def parse_contenders(texts: Sequence[str], scenario: "Scenario", curve: Path | None) -> "list[Contender]":
    """See `parse_contender`. Policies of one name, such as those of two runs in folders of one name, are named by their texts."""
    found = [parse_contender(text, scenario, curve) for text in texts]
    names = [one.name for one in found]
    return [
        dataclasses.replace(one, name=text) if names.count(one.name) > 1 else one
        for one, text in zip(found, texts, strict=True)
    ]


def parse_contender(text: str, scenario: "Scenario", curve: Path | None) -> "Contender":
    """Parses NAME, NAME:MODE, a file or a folder. Raises ConfigError for anything else, or a mode that the policy does not support."""
    from serl.agents.execution.policies.choose import NAMES, make_policy
    from serl.agents.execution.policies.policy import require_mode
    from serl.agents.execution.policies.volume import Vwap
    from serl.agents.learning.evaluation import Contender
    from serl.agents.learning.sources import Books
    from serl.exchange.errors import ConfigError

    name, _, mode = text.partition(":") if text.partition(":")[0] in NAMES else (text, "", "")
    if name not in NAMES and name not in FITTED and not Path(name).exists():
        raise ConfigError(
            f"{name}: does not exist; give one of {', '.join(NAMES)}, each perhaps with a mode, like twap:limit, the file of a trained policy, or the "
            "folder of its run"
        )
    volumes = scenario.source.volume_curve() if name == "vwap" and curve is None else None
    policy: Policy
    if name in FITTED:
        policy = fit_rule(name, scenario)
    elif volumes:
        policy = Vwap(volumes)
    else:
        policy = make_policy(name if name in NAMES else str(_policy_file(name)), curve=curve)
        if isinstance(policy, Vwap) and isinstance(scenario.source, Books):
            policy.curve.require_unseen(scenario.source.days)
    used = mode or policy.modes[0]
    require_mode(policy, used)  # fail before the first order is worked
    return Contender(text if name in NAMES else policy.name, policy, used)


def _evaluate_with_progress(
    scenario: "Scenario", contenders: "Sequence[Contender]", episodes: int, seed: int, rule: "Contender", on: str
) -> "Evaluation":
    from rich.progress import Progress

    from serl.agents.learning.evaluation import evaluate as evaluate_contenders

    with Progress(transient=True) as progress:
        task = progress.add_task("evaluating")
        return evaluate_contenders(
            scenario, contenders, episodes, seed,
            lambda done, total: progress.update(task, completed=done, total=total), rule, on,
        )  # fmt: skip


OPTIMISTIC = {
    "train": "A policy that was trained on these data has learnt in this part: its figures are optimistic.",
    "validation": "A policy that was trained on these data may have been chosen on this part: its figures are optimistic.",
}
"""What to say about trained policies in a part of the data that is not held out."""


def provenance(scenario: "Scenario", contenders: "Sequence[Contender]") -> str:
    """Describes the origin of the orders and the trained policies."""
    config, source = scenario.config, scenario.source.describe()
    where = f"part {config.part}" if config.hours is None else f"hours {config.hours}"
    files: list[tuple[str, Any]] = [(one.name, one.policy) for one in contenders if one.policy.interface is not None]
    trained = [(name, one) for name, one in files if "seed" in one.metadata]  # the policy of a rule was not trained
    return " ".join(
        [
            f"{scenario.market_name}{_bar_costs(scenario)}, {source['data']} (fingerprint {source.get('fingerprint', '-')}), {where},",
            f"{config.duration_s:g} s windows, decisions every {config.interval_s:g} s,",
            f"{config.share_min:.2%} to {config.share_max:.2%} of the expected volume.",
            *(
                f"{one.name}: {one.policy}."
                for one in contenders
                if one.policy.interface is None and one.policy.name in FITTED
            ),
            *(
                f"{name}: {one.metadata['steps']:,} steps, seed {one.metadata['seed']}{trained_with(one.metadata)}."
                for name, one in trained
            ),
            *([OPTIMISTIC[config.part]] if trained and config.hours is None and config.part in OPTIMISTIC else []),
        ]
    )


def _bar_costs(scenario: "Scenario") -> str:
    """Describes the trading costs of bars; empty for other markets."""
    from serl.agents.execution.environment.bars import StaticBars

    config = scenario.config
    if not isinstance(scenario.market, StaticBars):
        return ""
    half = "by stock" if config.spreads == "stock" else f"{config.half_spread_bps:g} bps"
    return f" (half spread {half}, impact {config.impact_bps:g} bps times the share of a bar's volume)"


def trained_with(metadata: dict[str, Any]) -> str:
    """The model of fills of the bars that a policy was trained in; empty for other markets."""
    trained = [one for one in metadata.get("data", []) if str(one.get("data", "")).endswith(".parquet")]
    fills = {one["market"].get("fills", FILLS_BEFORE) for one in trained if "market" in one}
    return f", trained with fills {' and '.join(sorted(fills))}" if fills else ""
