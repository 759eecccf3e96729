"""Settings of the race: the trainings that a candidate can get, and how many there are in all."""

import itertools
from typing import Any

from pydantic import Field, model_validator

from serl.exchange.invalid import StrictSettings


class Stage(StrictSettings):
    """A stage of the race: a number of trainings of a candidate, each to a share of the budget's steps."""

    share: float = Field(gt=0, le=1, description="share of the budget's training steps")
    seeds: int = Field(
        ge=1, le=64, description="trainings with different seeds; earlier ones of the same seed continue"
    )
    kept: float = Field(
        1.0,
        gt=0,
        le=1,
        description="share of the candidates that finished the previous stage and may enter this one; at least one may",
    )


DEFAULT = (Stage(share=0.2, seeds=1), Stage(share=1.0, seeds=3, kept=1 / 3), Stage(share=1.0, seeds=8, kept=1 / 3))
"""Screen, race, finals: 40,000, 200,000 and 200,000 steps of the default budget."""


class Race(StrictSettings):
    """Settings of the race (docs/inner.md)."""

    stages: tuple[Stage, ...] = DEFAULT
    trainings: float | None = Field(
        6.0,
        gt=0,
        description="budget of all candidates of an iteration together, in trainings with the full steps; null: only the stages limit it",
    )
    at_once: int = Field(
        2, ge=1, description="trainings that the bandit assigns before it reads the scores again; workers run them in parallel"
    )  # fmt: skip
    final_seeds: int = Field(8, ge=2, description="fresh trainings of the best candidate for the test part")

    @model_validator(mode="after")
    def _rise(self) -> "Race":
        rising = all(
            low.share <= high.share and low.seeds <= high.seeds and (low.share, low.seeds) != (high.share, high.seeds)
            for low, high in itertools.pairwise(self.stages)
        )
        if not self.stages or self.stages[-1].share != 1.0 or not rising:
            raise ValueError(
                "stages: expected shares and seeds that never fall, with share 1 at the end, got "
                f"{[(stage.share, stage.seeds) for stage in self.stages]}"
            )
        return self


def stages_of_rungs(rungs: Any, kept: Any) -> dict[str, Any]:
    """The race that the former settings `rungs` and `kept` described: one seed, and a share of the candidates continues at each rung."""
    if not isinstance(rungs, (list, tuple)) or not all(isinstance(share, int | float) for share in rungs):
        raise ValueError(f"rungs: expected shares like [0.25, 0.5, 1], got {rungs!r}; better set race.stages")
    return {
        "trainings": None,
        "stages": [{"share": share, "seeds": 1, "kept": kept if place else 1.0} for place, share in enumerate(rungs)],
    }
