"""`serl train`: learn a policy."""

from pathlib import Path

import click

FILE = click.Path(path_type=Path)


@click.command(epilog="Example: serl train replay --market amzn.day --steps 500000 --output runs/amzn")
@click.argument("config", type=FILE, required=False)
@click.option(
    "--market", "data", type=FILE, multiple=True, help="Bars, or a day with a book, to train on; may be repeated."
)
@click.option("--steps", type=click.IntRange(min=1), help="Environment steps in all.")
@click.option("--seed", type=click.IntRange(min=0), help="Of weights, actions and episodes.")
@click.option("--output", type=FILE, help="Folder of the run; runs/NAME without it.")
@click.option("--resume", type=FILE, help="Folder of a run to go on with, exactly where its checkpoint is.")
def train(
    config: Path | None, data: tuple[Path, ...], steps: int | None, seed: int | None, output: Path | None, resume: Path | None
) -> None:  # fmt: skip
    """Trains a policy as CONFIG says, a YAML file or one of dynamic, bars, replay, hybrid, opd, halop, macmic; Ctrl-C stops and says how to go on."""
    from serl.agents.learning import training
    from serl.agents.learning.baseline_training import training_of
    from serl.agents.learning.market_config import with_changes
    from serl.agents.learning.progress import watched

    if resume is not None:
        if config or data or steps or seed is not None or output:
            raise click.UsageError("--resume goes on with the settings of the run; give nothing else with it")
        folder, settings = resume, training.load_config(resume / training.CONFIG)
    else:
        settings = training.load_config(config) if config else training.TrainingConfig()
        changes = {name: value for name, value in (("steps", steps), ("seed", seed)) if value is not None}
        market = with_changes(settings.market, {"data": [*map(str, data)] or None})
        learner = settings.learner.model_copy(update=changes)
        settings = settings.model_copy(update={settings.algorithm: learner, "market": market})
        folder = output or Path("runs") / settings.name
        if any((folder / name).exists() for name in (training.CHECKPOINT, training.POLICY)):
            raise click.UsageError(
                f"{folder} holds a run already; go on with --resume {folder} or give another --output"
            )
    envs, facts = training.environments(settings)
    folder.mkdir(parents=True, exist_ok=True)
    run = training_of(settings, envs, folder, facts)
    if resume is not None:
        run.resume()
    else:
        training.save_config(settings, folder)
    watched(run)
