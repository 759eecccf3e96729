"""The search over the free parameters: simulated moments, with optuna's tree-structured Parzen estimator.

Every trial is in a journal beside the population as soon as it is done. A search that goes on after an interruption makes the
trials that it would have made without: each draws from a sampler of its own, seeded by how many were complete before it.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.fit import FreeParameters
from serl.extras import require

RANGES: dict[str, tuple[float, float]] = {
    "noise": (0.1, 2.0),
    "noise_activity": (0.0, 2.0),
    "trend_feedback": (0.0, 3.0),
    "lean": (0.5, 6.0),
    "restoring": (0.1, 4.0),
    "patient_share": (0.0, 0.6),
    "distance": (0.7, 1.4),
    "inside": (0.3, 1.5),
    "touch_cancels": (0.6, 2.0),
    "visible": (0.6, 2.0),
    "speed": (0.7, 1.4),
    "activity": (0.5, 2.0),
    "impact_y": (0.3, 1.5),
}
"""Bounds of each free parameter."""
STUDY = "calibration"
FIRST_RANDOM_TRIALS = 20


@dataclasses.dataclass(frozen=True)
class Trial:
    """One set of free parameters and how well it did."""

    number: int
    free: FreeParameters
    loss: float
    mean_l1: float


def import_optuna() -> Any:
    """optuna; MissingPackageError if it is not installed."""
    require("the search", "optuna")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def search(
    evaluate: Callable[[FreeParameters], tuple[float, float]], journal: Path, *, trials: int, seed: int, resume: bool,
    about: dict[str, Any], advance: Callable[[Trial], None] = lambda trial: None,
) -> Trial:  # fmt: skip
    """Makes trials until `trials` are complete, and gives the best of all.

    evaluate: free parameters to (loss, mean L1). about: what the trials depend on; a journal of something else is refused, and
    so is one that is there already without `resume`. CalibrationError says what to do.
    """
    optuna = import_optuna()
    if trials < 1:
        raise CalibrationError(f"trials: 1 or more is due, got {trials}")
    study = _study(optuna, journal, resume, {**about, "seed": seed})
    done = len(_complete(optuna, study))
    while done < trials:
        study.sampler = optuna.samplers.TPESampler(seed=1000 * seed + done, n_startup_trials=FIRST_RANDOM_TRIALS)
        if done == 0:
            study.enqueue_trial(dataclasses.asdict(FreeParameters()))
        trial = study.ask()
        free = FreeParameters(**{name: trial.suggest_float(name, *bounds) for name, bounds in RANGES.items()})
        value, mean_l1 = evaluate(free)
        trial.set_user_attr("mean_l1", mean_l1)
        study.tell(trial, value)
        done += 1
        advance(Trial(done, free, value, mean_l1))
    return best_trial(study, optuna)


def _study(optuna: Any, journal: Path, resume: bool, about: dict[str, Any]) -> Any:
    if journal.exists() and not resume:
        raise CalibrationError(f"{journal} has trials already: go on with --resume, or remove it to begin anew")
    if resume and not journal.exists():
        raise CalibrationError(f"{journal}: there is no search to go on with; leave --resume out")
    try:
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
    except OSError as error:
        raise CalibrationError(
            f"{journal}: cannot be written ({error.strerror}); give an output in a folder that exists"
        ) from None
    study = optuna.create_study(study_name=STUDY, storage=storage, direction="minimize", load_if_exists=True)
    known = study.user_attrs.get("about")
    if known is None:
        study.set_user_attr("about", about)
    elif known != about:
        differing = ", ".join(name for name in about if known.get(name) != about[name])
        raise CalibrationError(f"{journal} is of another search ({differing} differ); remove it to begin anew")
    for trial in study.get_trials(deepcopy=False):
        if not trial.state.is_finished():
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def _complete(optuna: Any, study: Any) -> list[Any]:
    return list(study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)))


def best_trial(study: Any, optuna: Any) -> Trial:
    """The complete trial with the least loss, the first of equals; numbers count complete trials from 1."""
    complete = _complete(optuna, study)
    place = min(range(len(complete)), key=lambda number: complete[number].value)
    best = complete[place]
    return Trial(place + 1, FreeParameters(**best.params), best.value, best.user_attrs["mean_l1"])
