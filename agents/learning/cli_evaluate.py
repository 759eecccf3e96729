"""`serl evaluate`: policies on the same held-out orders, one table."""

from pathlib import Path

import click

FILE = click.Path(path_type=Path)


@click.command(
    epilog="Example: serl evaluate runs/replay/policy.safetensors --market amzn.day --start 14:00 --end 15:45"
)
@click.argument("policies", type=FILE, nargs=-1)
@click.option("--market", "days", type=FILE, multiple=True, required=True, help="Day file; may be repeated.")
@click.option("--config", type=FILE, help="Settings of training whose market (but for days and hours) is used.")
@click.option("--start", default="14:00", show_default=True, help="Orders lie between start and end.")
@click.option("--end", default="15:45", show_default=True)
@click.option("--episodes", default=256, show_default=True, type=click.IntRange(min=2), help="Parent orders.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Of the parent orders.")
@click.option("--output", type=FILE, default=Path("reports"), show_default=True, help="Folder of the tables.")
def evaluate(
    policies: tuple[Path, ...], days: tuple[Path, ...], config: Path | None, start: str, end: str, episodes: int,
    seed: int, output: Path,
) -> None:  # fmt: skip
    """Works the same parent orders with TWAP and each of POLICIES; writes evaluation.md, .csv and .html."""
    from serl.agents.learning.errors import require_learning

    require_learning()
    from serl.agents.learning.environments import Scenario
    from serl.agents.learning.evaluation import Contender
    from serl.agents.learning.evaluation import evaluate as compare
    from serl.agents.learning.policy import load_policy
    from serl.agents.learning.table import markdown, write_tables
    from serl.agents.learning.training import TrainingConfig, load_config

    market = (load_config(config) if config else TrainingConfig()).market
    market = market.model_copy(update={"days": list(days), "start": start, "end": end})
    learnt = [(path, load_policy(path)) for path in policies]
    contenders = [Contender(_name(path, policies), policy, policy.interface) for path, policy in learnt]
    evaluation = compare(Scenario(market), contenders, episodes, seed)
    facts = (
        f"Days {', '.join(path.name for path in days)}, {start} to {end}, {market.duration_s:g} s windows, decisions every "
        f"{market.interval_s:g} s, {market.share_min:.2%} to {market.share_max:.2%} of the volume. "
        + " ".join(
            f"{_name(path, policies)}: {policy.facts['steps']:,} steps, seed {policy.facts['seed']}."
            for path, policy in learnt
        )
    )
    paths = write_tables(evaluation, output, facts)
    click.echo(markdown(evaluation, facts))
    click.echo(f"wrote {', '.join(map(str, paths))}")


def _name(path: Path, all_paths: tuple[Path, ...]) -> str:
    """Of the run's folder, or the whole path where two are alike."""
    short = path.parent.name if path.stem == "policy" and path.parent.name else path.stem
    alike = [other for other in all_paths if short in (other.stem, other.parent.name)]
    return short if len(alike) == 1 else str(path)
