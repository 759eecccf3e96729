"""The searches of the ceiling: a tree-structured Parzen estimator (optuna) over rules without training, and over settings of training."""

import contextlib
import dataclasses
import typing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from serl.agents.calibration.search import import_optuna
from serl.researcher.candidates import Budget
from serl.researcher.inner.settings import Settings
from serl.researcher.inner.worker import abandon
from serl.researcher.modules.specs import TERMS_MAX, PolicySpec, PolicyTerm

FIRST_RANDOM_TRIALS = 20
FAILED_BPS = -1000.0
"""Value of a trial whose training failed."""


@contextlib.contextmanager
def training_pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that wait for trainings. After an error or Ctrl-C running trainings are killed instead of waited for."""
    with ThreadPoolExecutor(workers) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            abandon()
            raise


def search(
    draw: Callable[[Any], Any], evaluate: Callable[[Any, int], float], journal: Path, trials: int, workers: int,
    report: Callable[[int], None], first: Sequence[dict[str, Any]] = (), top: int = 1,
) -> list[Any]:  # fmt: skip
    """Runs trials until `trials` are complete, `workers` at a time, and returns what `draw` drew for the `top` best, by `evaluate` of it and the
    trial's number. Complete trials in the journal are not repeated. report: called with the number of complete trials. first: parameters
    to begin with."""
    optuna = import_optuna()
    backend = optuna.storages.journal.JournalFileBackend(str(journal))
    storage = optuna.storages.JournalStorage(backend)
    study = optuna.create_study(study_name="ceiling", storage=storage, direction="maximize", load_if_exists=True)
    states = (optuna.trial.TrialState.COMPLETE,)
    for parameters in first:
        study.enqueue_trial(parameters, skip_if_exists=True)
    with training_pool(workers) as pool:
        while (complete := len(study.get_trials(deepcopy=False, states=states))) < trials:
            study.sampler = optuna.samplers.TPESampler(
                seed=complete, n_startup_trials=FIRST_RANDOM_TRIALS, constant_liar=workers > 1
            )
            asked = [study.ask() for _ in range(min(workers, trials - complete))]
            drawn = [draw(trial) for trial in asked]
            values = pool.map(evaluate, drawn, [trial.number for trial in asked])
            for trial, value in zip(asked, values, strict=True):
                study.tell(trial, value)
            report(complete + len(asked))
    ranked = sorted(study.get_trials(deepcopy=False, states=states), key=lambda trial: -trial.value)
    drawn = [draw(optuna.trial.FixedTrial(trial.params)) for trial in ranked]
    return [one for place, one in enumerate(drawn) if one not in drawn[:place]][:top]


def draw_rule(trial: Any) -> dict[str, Any]:
    """A specification of kind `policy`."""
    spec = {name: _choose(trial, name, field) for name, field in PolicySpec.model_fields.items() if name != "terms"}
    count = trial.suggest_int("terms", 0, TERMS_MAX)
    terms = [
        {name: _choose(trial, f"{name} {place}", field) for name, field in PolicyTerm.model_fields.items()}
        for place in range(count)
    ]
    return {**spec, "terms": terms}


def _choose(trial: Any, name: str, field: Any) -> Any:
    return trial.suggest_categorical(name, typing.get_args(field.annotation))


def draw_training(settings: Settings, budget: Budget) -> Callable[[Any], tuple[Settings, Budget]]:
    """Draws settings of the reward, PPO, observations, actions and placement, and the time at which training stops."""
    bars, reacts = settings.scored_in == "bars", settings.market.kind == "dynamic"
    rewards: Sequence[str] = ("price", "schedule", *(("undisturbed",) if reacts else ()))
    unit = "offset_bps" if bars or settings.market.offset_bps else "offset_ticks"

    def draw(trial: Any) -> tuple[Settings, Budget]:
        market = {
            "reward": trial.suggest_categorical("reward", rewards),
            "actions": trial.suggest_categorical("actions", ("market", "limit", "hybrid", "paced")),
            unit: trial.suggest_categorical(unit, (2.0, 5.0, 10.0, 20.0)),
            "levels": 1 if bars else trial.suggest_categorical("levels", (1, 3, 5, 10)),
            "deviation_bps": trial.suggest_float("deviation_bps", 0.01, 5, log=True),
            "unfilled_bps": trial.suggest_float("unfilled_bps", 0.1, 10, log=True),
        }
        ppo = {
            "actor_learning_rate": trial.suggest_float("actor_learning_rate", 1e-4, 3e-3, log=True),
            "gae_lambda": trial.suggest_float("gae_lambda", 0.8, 1.0),
            "entropy": trial.suggest_categorical("entropy", (0.0, 0.001, 0.01)),
            "reward_scale": trial.suggest_float("reward_scale", 0.02, 1.0, log=True),
        }
        steps = trial.suggest_categorical("steps_share", (0.25, 0.5, 1.0)) * budget.static_steps
        changes = {"market": settings.market.model_copy(update=market), "ppo": settings.ppo.model_copy(update=ppo)}
        changed = settings.model_copy(update=changes)
        return changed, dataclasses.replace(budget, static_steps=round(steps))

    return draw
