"""What the policy gradient learns from: candidates, how they were proposed, what they achieved."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serl.researcher.llm.answers import Answer
from serl.researcher.tuning.errors import TuningError


@dataclass(frozen=True)
class Experience:
    """A module as the model wrote it, and its performance."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    """Of the module; with the end token if it was free to come, without it under a grammar."""
    performance_bps: float
    """PA."""
    grammar: str | None = None
    """The grammar of llguidance under which it was drawn."""
    log_proposal: float | None = None
    """Logarithm of the probability with which it was proposed; None if the policy itself proposed it."""

    def __post_init__(self) -> None:
        if not self.token_ids or not self.prompt_ids:
            raise TuningError("prompt_ids, token_ids: at least one token each is due")
        if not math.isfinite(self.performance_bps):
            raise TuningError(f"performance_bps: a finite number is due, got {self.performance_bps}; score what failed")


def experience_of(
    prompt_ids: tuple[int, ...],
    answer: Answer,
    performance_bps: float,
    grammar: str | None = None,
    log_proposal: float | None = None,
) -> Experience:
    """An answer of the embedded endpoint as the very tokens that were drawn. TuningError if it came without them.

    The end token is learnt where it was free to come; under a grammar the end is the grammar's.
    """
    if not answer.tokens or any(token.id is None for token in answer.tokens):
        raise TuningError("answer: tokens with ids are due; ask the embedded endpoint or llama.cpp, with logprobs=True")
    ids = tuple(token.id for token in answer.tokens if token.id is not None and (token.text or grammar is None))
    return Experience(prompt_ids, ids, performance_bps, grammar, log_proposal)


def log_mixture(log_policy: float, log_other: float, other_share: float) -> float:
    """Logarithm of the density of a proposal that draws `other_share` from another distribution (say, a uniform one) and the rest
    from the policy. Without such a share a rewarded choice that is rare under the policy is never seen."""
    if other_share == 0.0:
        return log_policy
    if other_share == 1.0:
        return log_other
    return float(np.logaddexp(math.log1p(-other_share) + log_policy, math.log(other_share) + log_other))


def advantages(performance_bps: NDArray[np.float64], baseline_bps: float) -> NDArray[np.float64]:
    """(PA - b) over its root mean square in the batch; zeros where all performed as the baseline."""
    over = performance_bps - baseline_bps
    scale = float(np.sqrt(np.mean(over**2)))
    return over / scale if scale > 1e-12 else np.zeros_like(over)


class Replay:
    """The best candidates so far, each module once."""

    def __init__(self, n_kept: int) -> None:
        self.n_kept = n_kept
        self.kept: list[Experience] = []

    def add(self, fresh: Sequence[Experience]) -> None:
        """Keeps the best of old and new; the older one of equals."""
        seen = {(row.prompt_ids, row.token_ids): row for row in reversed([*self.kept, *fresh])}
        self.kept = sorted(seen.values(), key=lambda row: -row.performance_bps)[: self.n_kept]

    def draw(self, n: int, rng: np.random.Generator) -> list[Experience]:
        """`n` of the kept ones, at most as many as there are."""
        chosen = rng.permutation(len(self.kept))[:n]
        return [self.kept[index] for index in chosen]
