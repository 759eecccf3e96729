"""A model in two parts: lower layers, which tuning does not change, and upper layers. The lower layers' output for a module never changes, so it is
computed once and cached; each later pass runs only the upper layers."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.memory import KEPT_BYTES

_CHECKED = 8
"""Number of tokens in the check that the two parts equal the model."""


class Kept:
    """A cache of tensors by key, at most `bytes_max` bytes. The least recently used are dropped first."""

    def __init__(self, bytes_max: int = KEPT_BYTES) -> None:
        self._bytes_max, self._bytes, self._found = bytes_max, 0, OrderedDict[Any, Tensor]()

    def all_of(self, keys: Sequence[Any], make: Callable[[list[int]], Sequence[Tensor]]) -> list[Tensor]:
        """The tensors of all keys. `make` computes those that are not cached; it gets their positions in `keys`."""
        missing = [place for place, key in enumerate(keys) if key not in self._found]
        made = dict(zip(missing, make(missing), strict=True)) if missing else {}
        found = [made[place] if place in made else self._found[key] for place, key in enumerate(keys)]
        for key, tensor in zip(keys, found, strict=True):
            if key not in self._found:
                self._found[key] = tensor
                self._bytes += tensor.nbytes
            self._found.move_to_end(key)
        while self._bytes > self._bytes_max:
            self._bytes -= self._found.popitem(last=False)[1].nbytes
        return found


class Trunk:
    """The decoder of a model, split below its uppermost `n_upper` layers."""

    def __init__(self, model: Any, n_upper: int) -> None:
        decoder = model.get_decoder()
        first = len(decoder.layers) - n_upper
        self._embeddings = model.get_input_embeddings()
        self._lower = _part(decoder, slice(0, first), torch.nn.Identity())
        self._upper = _part(decoder, slice(first, None), decoder.norm)
        self._kept = Kept()
        self._require_equal(decoder)

    @torch.no_grad()
    def _require_equal(self, decoder: Any) -> None:
        """TuningError if the model does more than run its layers in turn, e.g. scale the embeddings between them."""
        inputs = self._embeddings(torch.arange(_CHECKED, device=decoder.device)[None])
        whole = decoder(inputs_embeds=inputs, use_cache=False).last_hidden_state
        parts = self._upper(inputs_embeds=self._run(self._lower, inputs), use_cache=False).last_hidden_state
        if not torch.allclose(whole, parts, rtol=1e-3, atol=1e-3):
            raise TuningError("layers: expected a model that runs its layers in turn, got one that does more; set layers: null to train all")  # fmt: skip

    def __call__(self, input_ids: Tensor, attention: Tensor) -> Tensor:
        """(n_rows, length, hidden): the decoder's output for rows of tokens with padding on the right."""
        inputs = self._below(input_ids, attention.sum(1).tolist())
        hidden: Tensor = self._run(self._upper, inputs, attention)
        return hidden

    @torch.no_grad()
    def _below(self, input_ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """The lower layers' output for each row, padded with zeros."""
        rows = [ids[:length] for ids, length in zip(input_ids, lengths, strict=True)]

        def made(places: list[int]) -> list[Tensor]:
            return [self._run(self._lower, self._embeddings(rows[place][None]))[0] for place in places]

        found = self._kept.all_of([tuple(row.tolist()) for row in rows], made)
        return torch.nn.utils.rnn.pad_sequence(found, batch_first=True)

    @staticmethod
    def _run(part: Any, inputs: Tensor, attention: Tensor | None = None) -> Tensor:
        hidden: Tensor = part(inputs_embeds=inputs, attention_mask=attention, use_cache=False).last_hidden_state
        return hidden


def _part(decoder: Any, layers: slice, norm: torch.nn.Module) -> Any:
    """The decoder with some of its layers and another norm, sharing all weights. Settings per layer are cut likewise."""
    part, config = copy.copy(decoder), copy.copy(decoder.config)
    part._modules = {**decoder._modules, "layers": torch.nn.ModuleList(decoder.layers[layers]), "norm": norm}
    if getattr(config, "layer_types", None) is not None:
        config.layer_types = config.layer_types[layers]
    config.num_hidden_layers = len(part.layers)
    part.config = config
    return part
