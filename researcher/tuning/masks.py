"""Masks of the tokens that a grammar allows at each position."""

from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from serl.researcher.tuning.errors import TuningError


class Masks:
    """Grammar masks for a tokenizer. The grammars are those of the embedded endpoint (llguidance), so scores match its sampling."""

    def __init__(self, tokenizer: Any, n_vocabulary: int) -> None:
        self.n_vocabulary = n_vocabulary
        self.allowed = lru_cache(maxsize=64)(self._allowed)
        self._plain = tokenizer

    @cached_property
    def _tokenizer(self) -> Any:
        import llguidance.hf

        return llguidance.hf.from_tokenizer(self._plain, n_vocab=self.n_vocabulary)

    def _allowed(self, grammar: str, token_ids: tuple[int, ...]) -> Tensor:
        """(n_tokens, n_vocabulary) bool: the tokens allowed at each position. TuningError if a token of the module is not allowed."""
        from llguidance import LLMatcher

        matcher = LLMatcher(self._tokenizer, grammar)
        if matcher.is_error():
            raise TuningError(f"expected a grammar of llguidance: {matcher.get_error()}")
        rows = []
        for position, token in enumerate(token_ids):
            bits = torch.frombuffer(bytearray(matcher.compute_bitmask()), dtype=torch.uint8)
            row = (bits[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
            rows.append(row.reshape(-1)[: self.n_vocabulary].bool())
            if not matcher.consume_token(token):
                raise TuningError(
                    f"token {position} ({token}) breaks the grammar; leave the end token out of {token_ids}"
                )
        return torch.stack(rows)
