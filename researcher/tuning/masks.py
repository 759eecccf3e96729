"""Masks of the tokens that a grammar allows at each position."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from serl.researcher.tuning.errors import TuningError


@dataclass(frozen=True)
class Choices:
    """The tokens of a module where its grammar leaves a choice. All other tokens have probability 1, so they change neither score nor gradient."""

    positions: Tensor
    """(n,): positions of tokens with more than one allowed token."""
    columns: Tensor
    """(n_columns,): ids of the tokens that are allowed at any of these positions, ascending."""
    allowed: Tensor
    """(n, n_columns) bool."""


class Masks:
    """Grammar masks for a tokenizer. The grammars are those of the embedded endpoint (llguidance), so scores match its sampling."""

    def __init__(self, tokenizer: Any, n_vocabulary: int) -> None:
        self.n_vocabulary = n_vocabulary
        self.choices = lru_cache(maxsize=4096)(self._choices)
        self._compiled = lru_cache(maxsize=64)(self._compile)
        self._plain = tokenizer

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of llguidance."""
        import llguidance.hf

        return llguidance.hf.from_tokenizer(self._plain, n_vocab=self.n_vocabulary)

    def matcher(self, grammar: str) -> Any:
        """A matcher (llguidance) at the start of a module. TuningError if there is no such grammar."""
        return self._compiled(grammar).deep_copy()

    def _compile(self, grammar: str) -> Any:
        from llguidance import LLMatcher

        matcher = LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise TuningError(f"expected a grammar of llguidance: {matcher.get_error()}")
        return matcher

    def _choices(self, grammar: str, token_ids: tuple[int, ...]) -> Choices:
        """The choices of a module. TuningError if a token of the module is not allowed."""
        allowed = self.allowed(grammar, token_ids)
        positions = (allowed.sum(1) > 1).nonzero()[:, 0]
        columns = allowed[positions].any(0).nonzero()[:, 0]
        return Choices(positions, columns, allowed[positions][:, columns])

    def allowed(self, grammar: str, token_ids: tuple[int, ...]) -> Tensor:
        """(n_tokens, n_vocabulary) bool: the tokens allowed at each position. TuningError if a token of the module is not allowed."""
        matcher, rows = self.matcher(grammar), []
        for position, token in enumerate(token_ids):
            bits = torch.frombuffer(bytearray(matcher.compute_bitmask()), dtype=torch.uint8)
            row = (bits[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
            rows.append(row.reshape(-1)[: self.n_vocabulary].bool())
            if not matcher.consume_token(token):
                raise TuningError(
                    f"token {position} ({token}) breaks the grammar; leave the end token out of {token_ids}"
                )
        return torch.stack(rows)
