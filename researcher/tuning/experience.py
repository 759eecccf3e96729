"""Training data: modules as tokens, with the probability of their proposal and their performance."""

import math
from dataclasses import dataclass

import numpy as np

from serl.researcher.llm.answers import Answer
from serl.researcher.tuning.errors import TuningError


@dataclass(frozen=True)
class Experience:
    """A module as token ids, with its performance."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    """Tokens of the module; with the end token, except under a grammar."""
    performance_bps: float
    """PA."""
    grammar: str | None = None
    """The llguidance grammar under which it was sampled."""
    log_proposal: float | None = None
    """Log-probability of its proposal; None if the current policy proposed it."""

    def __post_init__(self) -> None:
        if not self.token_ids or not self.prompt_ids:
            raise TuningError("prompt_ids, token_ids: expected at least one token each")
        if not math.isfinite(self.performance_bps):
            raise TuningError(
                f"performance_bps: expected a finite number, got {self.performance_bps}; give failed modules a score"
            )


def experience_of(
    prompt_ids: tuple[int, ...],
    answer: Answer,
    performance_bps: float,
    grammar: str | None = None,
    log_proposal: float | None = None,
) -> Experience:
    """An answer of the embedded endpoint as the exact tokens that were sampled. TuningError if the answer has no tokens.

    The end token is included unless a grammar ended the answer.
    """
    if not answer.tokens or any(token.id is None for token in answer.tokens):
        raise TuningError("answer: expected tokens with ids; use the embedded endpoint or llama.cpp with logprobs=True")
    ids = tuple(token.id for token in answer.tokens if token.id is not None and (token.text or grammar is None))
    return Experience(prompt_ids, ids, performance_bps, grammar, log_proposal)


def log_mixture(log_policy: float, log_other: float, other_share: float) -> float:
    """Log-probability under a mixture: `other_share` of another distribution (e.g. uniform), the rest of the policy. Without such exploration, a good
    choice that is rare under the policy is never sampled."""
    if other_share == 0.0:
        return log_policy
    if other_share == 1.0:
        return log_other
    return float(np.logaddexp(math.log1p(-other_share) + log_policy, math.log(other_share) + log_other))
