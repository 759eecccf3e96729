"""Log-probabilities of modules under a model, KL divergence and entropy."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.masks import Choices, Masks
from serl.researcher.tuning.trunk import Trunk

FORBIDDEN = -1e9
"""Logit of a token that the grammar forbids: finite, so that 0 · log 0 is 0 in entropies and gradients."""


@dataclass(frozen=True)
class Batch:
    """A batch of modules, padded on the right. n counts the scored tokens of all modules: all tokens or, under grammars, only tokens where the
    grammar leaves a choice. The scored vocabulary is then what the grammars allow anywhere in the batch. That is exact, and skips most of the output
    layer."""

    input_ids: Tensor
    """(n_candidates, length)."""
    attention: Tensor
    """(n_candidates, length): 1 where there is a token."""
    row: Tensor
    """(n,): row of the token's module."""
    column: Tensor
    """(n,): position of the token, which is predicted from the position before it."""
    tokens: Tensor
    """(n,): the token, as an index of the scored vocabulary."""
    vocabulary: Tensor | None
    """(n_vocabulary,): ids of the scored vocabulary, ascending; None for all."""
    allowed: Tensor | None
    """(n, n_vocabulary) bool, or None without grammars."""

    def per_candidate(self, values: Tensor) -> Tensor:
        """Sum values per token over each module: (n,) to (n_candidates,)."""
        return torch.zeros(len(self.input_ids), device=values.device).index_add(0, self.row, values)

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device."""
        moved = {one.name: getattr(self, one.name) for one in fields(self)}
        return Batch(**{name: None if tensor is None else tensor.to(device) for name, tensor in moved.items()})


def batch_of(rows: Sequence[Experience], masks: Masks) -> Batch:
    """Modules as a padded batch of tensors."""
    lengths = [len(row.prompt_ids) + len(row.token_ids) for row in rows]
    input_ids = torch.zeros((len(rows), max(lengths)), dtype=torch.long)
    attention = torch.zeros_like(input_ids)
    for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        input_ids[index, :length] = torch.tensor(row.prompt_ids + row.token_ids)
        attention[index, :length] = 1
    choices = [_choices(row, masks) for row in rows]
    row_of = torch.cat([torch.full((len(one.positions),), index) for index, one in enumerate(choices)])
    column_of = torch.cat([len(row.prompt_ids) + one.positions for row, one in zip(rows, choices, strict=True)])
    tokens = input_ids[row_of, column_of]
    if any(row.grammar is None for row in rows):
        free = any(row.grammar is not None for row in rows)
        allowed = _spread(choices, torch.arange(masks.n_vocabulary)) if free else None
        return Batch(input_ids, attention, row_of, column_of, tokens, None, allowed)
    vocabulary = torch.unique(torch.cat([one.columns for one in choices]))
    tokens = torch.searchsorted(vocabulary, tokens)
    return Batch(input_ids, attention, row_of, column_of, tokens, vocabulary, _spread(choices, vocabulary))


def _choices(row: Experience, masks: Masks) -> Choices:
    if row.grammar is not None:
        return masks.choices(row.grammar, row.token_ids)
    n, every = len(row.token_ids), torch.arange(masks.n_vocabulary)
    return Choices(torch.arange(n), every, torch.ones((1, 1), dtype=torch.bool).expand(n, len(every)))


def _spread(choices: Sequence[Choices], vocabulary: Tensor) -> Tensor:
    """(n, n_vocabulary): the choices' masks over one vocabulary."""
    masks = torch.zeros((sum(len(one.positions) for one in choices), len(vocabulary)), dtype=torch.bool)
    begin = 0
    for one in choices:
        end = begin + len(one.positions)
        masks[begin:end, torch.searchsorted(vocabulary, one.columns)] = one.allowed
        begin = end
    return masks


def states(model: Any, batch: Batch, trunk: Trunk | None = None, soft: Tensor | None = None) -> Tensor:
    """(n, hidden): the decoder's outputs from which the tokens are predicted.

    With a `trunk`, the lower layers are not run again for modules that it has cached. `soft` (n, n_vocabulary) is added to the one-hot tokens in
    the model's input (see `straight_through`). It changes the input of all layers, so the trunk does not apply.
    """
    if trunk is not None and soft is None:
        return trunk(batch.input_ids, batch.attention)[batch.row, batch.column - 1]
    embeddings, ids = model.get_input_embeddings(), batch.vocabulary
    inputs = embeddings(batch.input_ids)
    if soft is not None:
        table = embeddings.weight if ids is None else embeddings.weight[ids]
        inputs = inputs.index_put((batch.row, batch.column), soft @ table, accumulate=True)
    hidden = model.get_decoder()(inputs_embeds=inputs, attention_mask=batch.attention, use_cache=False)
    predicting: Tensor = hidden.last_hidden_state[batch.row, batch.column - 1]
    return predicting


def log_softmax(
    model: Any, batch: Batch, temperature: float, trunk: Trunk | None = None, soft: Tensor | None = None
) -> Tensor:
    """(n, n_vocabulary): log-probabilities of the distribution that each token was sampled from, including the grammar. `trunk`, `soft`: see
    `states`."""
    return log_softmax_of(states(model, batch, trunk, soft), model, batch, temperature)


def log_softmax_of(predicting: Tensor, model: Any, batch: Batch, temperature: float) -> Tensor:
    """As log_softmax, from the decoder's outputs (n, hidden)."""
    head, ids = model.get_output_embeddings(), batch.vocabulary
    if ids is None:
        logits = head(predicting)
    else:
        bias = None if head.bias is None else head.bias[ids]
        logits = torch.nn.functional.linear(predicting, head.weight[ids], bias)
    logits = logits / temperature
    if batch.allowed is not None:
        logits = logits.masked_fill(~batch.allowed, FORBIDDEN)
    return torch.log_softmax(logits, dim=-1)


def straight_through(model: Any, batch: Batch, temperature: float, trunk: Trunk | None = None) -> Tensor:
    """As log_softmax, but gradients also flow through the module's earlier tokens: hard tokens y in the forward pass, the soft
    distribution p in the backward pass: y + p - stop(p) (Bengio, Léonard, Courville 2013)."""
    soft = log_softmax(model, batch, temperature, trunk).exp()
    return log_softmax(model, batch, temperature, soft=soft - soft.detach())


def chosen(log_p: Tensor, batch: Batch) -> Tensor:
    """(n_candidates,): Σ log p(token) over each module."""
    return batch.per_candidate(log_p.gather(1, batch.tokens[:, None])[:, 0])


def divergence(log_p: Tensor, log_base: Tensor, batch: Batch) -> Tensor:
    """(n_candidates,): Σ over the module's tokens of KL(policy || base), in nats."""
    return batch.per_candidate((log_p.exp() * (log_p - log_base)).sum(-1))


def entropy(log_p: Tensor, batch: Batch) -> Tensor:
    """(n_candidates,): Σ over the module's tokens of the distribution's entropy, in nats."""
    return batch.per_candidate(-(log_p.exp() * log_p).sum(-1))
