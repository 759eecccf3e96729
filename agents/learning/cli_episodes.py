"""`serl episodes`: exports data for offline learners, and clones the best episodes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serl.agents.learning.cli_evaluate import check_policies, parse_contenders
from serl.agents.learning.cli_market import (
    ANSWERS,
    CONFIG,
    CURVE,
    FILLS,
    FOLDER,
    HOURS,
    KINDS,
    MARKET,
    POPULATION_OPTION,
    SEED,
    check_used,
    market_settings,
)
from serl.ranges import SEED_MAX, FloatRange

if TYPE_CHECKING:
    from serl.agents.execution.environment.observation import Scales
    from serl.agents.learning.environments import Scenario
    from serl.agents.learning.episodes import Recording
    from serl.agents.learning.evaluation import Contender


@click.group(epilog="Example: serl episodes export --policy twap --policy passive --market amzn.day -o serl/amzn-v0")
def episodes() -> None:
    """Export episodes of policies as a Minari dataset, and clone the best of them."""


@episodes.command(
    epilog="Example: serl episodes export --policy twap --policy passive --market amzn.day -o serl/amzn-v0"
)
@MARKET
@CONFIG
@click.option("--kind", type=KINDS, help="Kind of market; default: as in the settings.")
@POPULATION_OPTION
@click.option(
    "--part", default="train", show_default=True, type=click.Choice(["train", "validation", "test"]),
    help="Part of the data that the orders are from; learn from `train` only.",
)  # fmt: skip
@FILLS
@click.option("--answers", type=ANSWERS, help="replay: whether the day gives way to the orders, and by which impact.")
@HOURS
@CURVE
@click.option(
    "--policy", "policies", multiple=True, required=True,
    help="As in `serl evaluate`: a schedule (twap, twap:limit, passive, ...), a policy file or the folder of a run. May be repeated.",
)  # fmt: skip
@click.option(
    "--episodes", "orders", default=256, show_default=True, type=click.IntRange(min=1),
    help="Number of parent orders; every policy works each of them, which is one episode.",
)  # fmt: skip
@SEED
@click.option(
    "--output", "-o", required=True,
    help="A Minari name with a version, like serl/amzn-v0, or a folder.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the dataset that is there.")
def export(
    data: tuple[Path, ...], config: Path | None, kind: str | None, population: str | None, part: str, fills: str | None,
    answers: str | None, hours: str | None, volume_curve: Path | None, policies: tuple[str, ...], orders: int, seed: int,
    output: str, overwrite: bool,
) -> None:  # fmt: skip
    """Let policies work parent orders in the execution environment and write all their decisions as a Minari dataset."""
    from serl.agents.execution.policies.choose import packages_of
    from serl.extras import require

    trained = {name for policy in policies for name in packages_of(policy)}
    require(
        "Minari datasets", "minari", "pyarrow", *sorted(trained | ({"torch"} if config else set())), extra="offline"
    )
    check_policies("--policy", policies)
    from serl.agents.learning.episodes import recorded_scenario
    from serl.agents.learning.market_config import with_overrides
    from serl.agents.learning.minari_files import dataset_place, require_free, write_dataset

    place = dataset_place(output)
    require_free(place, overwrite)
    overrides = {
        "data": [*map(str, data)] or None, "population": population, "kind": kind, "part": part, "fills": fills,
        "answers": answers, "hours": hours,
    }  # fmt: skip
    market = with_overrides(market_settings(config), overrides)
    check_used((market.kind,), data, population)
    scenario = recorded_scenario(market)
    contenders = parse_contenders(policies, scenario, volume_curve)
    scales = scenario.fit_scales()
    recordings = _record(scenario, scales, contenders, orders, seed)
    files: list[Any] = [one.policy for one in contenders if one.policy.interface is not None]
    learnt = [data for policy in files for data in policy.metadata.get("data", [])]  # a clone learns from these too
    about = {
        "part": part, "policies": list(policies), "seed": seed, "orders": orders, "data": [scenario.describe(), *learnt],
    }  # fmt: skip
    write_dataset(place, recordings, scenario.env(scales), scenario.config, about)
    for recording in recordings:
        returns = recording.rewards.sum(axis=1)
        click.echo(f"{recording.policy}: {orders:,} episodes, mean return {returns.mean():.2f} bps")
    loaded = f'minari.load_dataset("{output}")' if place.inside else f'minari.MinariDataset("{output}")'
    click.echo(f"wrote {place.folder}; load it with {loaded}")


def _record(
    scenario: "Scenario", scales: "Scales", contenders: "Sequence[Contender]", orders: int, seed: int
) -> "list[Recording]":
    import numpy as np
    from rich.console import Console
    from rich.progress import Progress

    from serl.agents.learning.episodes import record_orders

    rows = scenario.sampler.sample(np.random.Generator(np.random.PCG64(seed)), orders)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        tasks = [progress.add_task(one.name, total=orders) for one in contenders]
        return [
            record_orders(scenario, scales, one, rows, lambda done, task=task: progress.update(task, completed=done))
            for one, task in zip(contenders, tasks, strict=True)
        ]


@episodes.command(epilog="Example: serl episodes clone serl/amzn-v0 --best 0.2 --output runs/clone")
@click.argument("dataset")
@click.option(
    "--best", default=0.2, show_default=True, type=FloatRange(0, 1, min_open=True),
    help="Share of the episodes to imitate, those with the highest returns; 1: all.",
)  # fmt: skip
@click.option("--epochs", default=100, show_default=True, type=click.IntRange(min=1), help="Maximum number of epochs.")
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0, SEED_MAX),
    help="Seed of weights and held-out orders.",
)
@click.option(
    "--output", "-o", type=FOLDER, default=Path("runs/clone"), show_default=True, help="Folder of the policy."
)
def clone(dataset: str, best: float, epochs: int, seed: int, output: Path) -> None:
    """Train a policy that imitates the best episodes of DATASET, a name or folder of `serl episodes export`.

    `serl evaluate` and `serl execute` accept it like any other policy.
    """
    from serl.extras import require

    require("learning from a Minari dataset", "minari", "pyarrow", "safetensors", "torch", extra="offline")
    from rich.console import Console

    from serl.agents.learning.cloning import CloneConfig
    from serl.agents.learning.cloning import clone as clone_episodes
    from serl.agents.learning.minari_files import dataset_place, read_episodes
    from serl.agents.learning.training import POLICY

    if (output / POLICY).exists():
        raise click.UsageError(f"{output} already contains a policy; choose another --output")
    read = read_episodes(dataset_place(dataset))
    with Console(stderr=True).status("cloning") as status:
        policy = clone_episodes(
            read, CloneConfig(best=best, epochs=epochs, seed=seed),
            report=lambda epoch, error: status.update(f"epoch {epoch} of {epochs}, held-out error {error:.4f}"),
        )  # fmt: skip
    output.mkdir(parents=True, exist_ok=True)
    policy.save(output / POLICY)
    cloned = policy.metadata["cloned"]
    click.echo(
        f"wrote {output / POLICY}, from {cloned['episodes']} of {cloned['of_episodes']} episodes; "
        f"held-out error {cloned['held_out_error']:.4f}"
    )
