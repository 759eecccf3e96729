"""A small language model for benchmarks of tuning, and samples from the policy of a tuner in this process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import uniform
from serl.researcher.tuning.base import Base
from serl.researcher.tuning.tuner import Tuner

LAYERS, HIDDEN, TEXTS, STEPS, BATCH = 2, 64, 2000, 150, 32


def small_base(kind: Kind, seed: int = 0) -> Base:
    """A transformer of two layers that has learnt to write specifications of a kind, with habits: each text it learnt from is one of few
    choices, so it writes some often and others hardly ever, as a pretrained model does. About half a minute on one core."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    rng = np.random.default_rng([seed, 7])
    texts = [uniform.draw(kind, rng) for _ in range(TEXTS)]
    words = Tokenizer(models.BPE())
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    words.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=512, initial_alphabet=alphabet, special_tokens=["<s>", "</s>"], show_progress=False))  # fmt: skip
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>")
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=HIDDEN, intermediate_size=2 * HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512,
    )  # fmt: skip
    base = Base(Path("small"), LlamaForCausalLM(config), tokenizer)
    habits = rng.permutation(TEXTS)[: TEXTS // 40]
    _pretrain(base, [(0, *base.text_ids(texts[habits[i % len(habits)] if i % 2 else i])) for i in range(TEXTS)], rng)
    return base


def _pretrain(base: Base, rows: Sequence[tuple[int, ...]], rng: np.random.Generator) -> None:
    """Next-token prediction: half uniform specifications, half a few habits."""
    optimizer = torch.optim.Adam(base.model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        drawn = [rows[i] for i in rng.permutation(len(rows))[:BATCH]]
        ids = torch.full((BATCH, max(map(len, drawn))), 1)
        for place, row in enumerate(drawn):
            ids[place, : len(row)] = torch.tensor(row)
        labels = ids.masked_fill(ids == 1, -100)
        optimizer.zero_grad()
        base.model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
    base.model.eval()


@torch.no_grad()
def sampled(
    tuner: Tuner, prompt: tuple[int, ...], grammar: str, n: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """`n` modules from the policy under a grammar, as token ids. `rng` draws the tokens."""
    matchers = [tuner.masks.matcher(grammar) for _ in range(n)]
    made: list[list[int]] = [[] for _ in range(n)]
    model, cache, inputs = tuner.model.get_base_model(), None, torch.tensor([prompt]).expand(n, -1)
    while not all(matcher.is_stopped() or matcher.is_accepting() for matcher in matchers):
        out = model(input_ids=inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        tokens = [
            0 if matcher.is_accepting() else _draw(logits, matcher, rng)
            for logits, matcher in zip(out.logits[:, -1], matchers, strict=True)
        ]
        for row, matcher, token in zip(made, matchers, tokens, strict=True):
            if not matcher.is_accepting():
                row.append(token)
                matcher.consume_token(token)
        inputs = torch.tensor(tokens)[:, None]
    return [tuple(row) for row in made]


def _draw(logits: torch.Tensor, matcher: Any, rng: np.random.Generator) -> int:
    bits = torch.frombuffer(bytearray(matcher.compute_bitmask()), dtype=torch.uint8)
    allowed = ((bits[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1).reshape(-1)[: len(logits)].bool()
    ids = allowed.nonzero()[:, 0].numpy()
    bounds = logits[ids].double().softmax(0).cumsum(0).numpy()
    return int(ids[min(np.searchsorted(bounds, rng.random()), len(ids) - 1)])
