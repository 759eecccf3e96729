"""`serl train`: trains a policy."""

from pathlib import Path

import click

from serl.agents.learning.cli_market import FILE, FOLDER, FORECASTER, check_used
from serl.cluster import LOCAL, on_option
from serl.ranges import SEED_MAX


@click.command(epilog="Example: serl train replay --market amzn.day --steps 500000 --output runs/amzn")
@click.argument("config", type=FILE, required=False)
@click.option(
    "--market",
    "data",
    type=FILE,
    multiple=True,
    help="A file of bars, or a day with a book, to train on; may be repeated.",
)
@FORECASTER
@click.option("--steps", type=click.IntRange(min=1), help="Total environment steps.")
@click.option(
    "--parts",
    type=click.IntRange(1, 1024),
    help="ppo: number of parts into which the environments are divided (rollout_parts).",
)
@on_option("ppo: run the parts on this machine, or each as an actor on a Ray cluster.")
@click.option("--seed", type=click.IntRange(0, SEED_MAX), help="Seed of weights, actions and episodes.")
@click.option(
    "--start-from",
    type=FILE,
    help="Policy file, or folder of a run, whose weights training starts from; default: new ones.",
)
@click.option("--output", type=FOLDER, help="Folder of the run; default runs/NAME.")
@click.option("--resume", type=FILE, help="Folder of a run to continue from its last checkpoint.")
def train(
    config: Path | None, data: tuple[Path, ...], forecaster: Path | None, steps: int | None, parts: int | None, on: str | None, seed: int | None, start_from: Path | None, output: Path | None,
    resume: Path | None,
) -> None:  # fmt: skip
    """Train a policy with the settings CONFIG: a YAML file, or one of dynamic, reactive, imitation, adversarial, bars, bars-15min, bars-limit, replay,
    replay-limit, hybrid, opd, halop, macmic. Ctrl-C stops it and prints how to continue."""
    from serl.agents.learning import training
    from serl.agents.learning.baseline_training import build_training
    from serl.agents.learning.market_config import with_overrides
    from serl.agents.learning.progress import run_with_progress

    if resume is not None:
        if config or data or forecaster or steps or parts or seed is not None or start_from or output:
            raise click.UsageError(
                "--resume uses the settings of the run; leave out all other options but --on, and CONFIG"
            )
        folder, settings = resume, training.load_saved_config(resume)
    else:
        settings = training.load_config(config) if config else training.TrainingConfig()
        if parts is not None and settings.algorithm != "ppo":
            raise click.UsageError(f"expected algorithm ppo for --parts, got {settings.algorithm}; leave it out")
        check_used((settings.market.kind,), data)
        given = (("steps", steps), ("seed", seed), ("rollout_parts", parts))
        overrides = {name: value for name, value in given if value is not None}
        market = with_overrides(settings.market, {"data": [*map(str, data)] or None, "forecaster": forecaster})
        dynamic = settings.dynamic and with_overrides(settings.dynamic, {"forecaster": forecaster})
        learner = settings.learner.model_copy(update=overrides)
        changes = {settings.algorithm: learner, "market": market, "start_from": start_from or settings.start_from}
        settings = settings.model_copy(update={**changes, "dynamic": dynamic})
        folder = output or Path("runs") / settings.name
        if any((folder / name).exists() for name in (training.CHECKPOINT, training.POLICY)):
            raise click.UsageError(
                f"{folder} already contains a run; continue it with --resume {folder}, or choose another --output"
            )
    envs, metadata = training.environments(settings)
    run = build_training(settings, envs, folder, metadata, on or LOCAL)
    if resume is not None:
        run.resume()
    else:
        if settings.start_from:
            run.start_from(settings.start_from)
        folder.mkdir(parents=True, exist_ok=True)
        training.save_config(settings, folder)
    run_with_progress(run)
