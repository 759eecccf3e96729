"""Results and trials on disk, written atomically, so that finished work is never repeated."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.atomic_file import write_json
from serl.researcher.candidates import Paired, Result, Score, current_stage


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training of a candidate and its score; for a rule, one batch of orders."""

    share: float
    seed: int
    score: Score
    facts: Mapping[str, Any]


def score_of(values: Mapping[str, Any]) -> Score:
    """The inverse of dataclasses.asdict for a Score; accepts scores that earlier versions wrote."""
    rows: dict[str, Any] = {
        name: tuple(values.get(name, ())) for name in ("advantages_bps", "clusters", "controls_bps")
    }
    return Score(**{**values, **rows})


def mean_score(scores: Sequence[Score]) -> Score:
    """The score of a candidate that was trained several times. Figures are means; so are the ends of the interval, which is therefore that of a
    single training. The orders of all trainings are concatenated."""
    if len(scores) == 1:
        return scores[0]
    numbers = ("pa_bps", "low_bps", "high_bps", "pa_twap_bps", "pa_std_bps", "unfilled", "impact_bps")
    means = {name: float(np.mean([getattr(score, name) for score in scores])) for name in numbers}
    rows = ("advantages_bps", "clusters", "controls_bps")
    joined = {name: tuple(value for score in scores for value in getattr(score, name)) for name in rows}
    told = dict.fromkeys(
        name for score in scores for name in score.behaviour
    )  # with few orders a group may be empty, such as the one with falling prices
    behaviour = {
        name: float(np.mean([score.behaviour[name] for score in scores if name in score.behaviour])) for name in told
    }
    found = Score(**means, **joined, behaviour=behaviour, orders=sum(score.orders for score in scores))  # pyrefly: ignore[bad-argument-type]
    twap_bps, filled, twap_filled = (_mean_told(scores, name) for name in ("twap_bps", "filled", "twap_filled"))
    return dataclasses.replace(found, twap_bps=twap_bps, filled=filled, twap_filled=twap_filled)


def _mean_told(scores: Sequence[Score], name: str) -> float | None:
    """The mean over the scores that have a value."""
    told = [getattr(score, name) for score in scores if getattr(score, name) is not None]
    return float(np.mean(told)) if told else None


def write_trial(trial: Trial, path: Path) -> None:
    """Write a trial atomically."""
    write_json(path, dataclasses.asdict(trial))


def read_trial(path: Path) -> Trial:
    """Read a trial."""
    values: dict[str, Any] = json.loads(path.read_text())
    return Trial(**values | {"score": score_of(values["score"])})


def write(result: Result, path: Path) -> None:
    """Write a result atomically. The policy file is stored relative to the result's folder, because folders may move."""
    name = None if result.policy is None else str(Path(result.policy).relative_to(path.parent))
    write_json(path, dataclasses.asdict(result) | {"policy": name})


def read(path: Path) -> Result | None:
    """Read a result; None if the file does not exist."""
    if not path.exists():
        return None
    values: dict[str, Any] = json.loads(path.read_text())
    score, paired, name = values.pop("score"), values.pop("paired", None), values.pop("policy")
    values["stage"] = current_stage(values["stage"])
    return Result(
        **values, score=score_of(score) if score else None, paired=Paired(**paired) if paired else None,
        policy=None if name is None else str(path.parent / name),
    )  # fmt: skip
