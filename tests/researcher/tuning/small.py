"""A small random language model, for the mathematics of tuning."""

from pathlib import Path
from typing import Any

import torch

from serl.researcher.tuning.base import Base
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.tuner import Tuner

VOCABULARY = 12


def small_base() -> Base:
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(5)
    torch.set_num_threads(1)
    words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(VOCABULARY)}, unk_token="w0"))
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(
        vocab_size=VOCABULARY, num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.4, **shape
    )
    return Base(
        Path("small"), LlamaForCausalLM(config).eval(), PreTrainedTokenizerFast(tokenizer_object=words), "5" * 64
    )


def small_tuner(**settings: Any) -> Tuner:
    values: dict[str, Any] = {"rank": 4, "alpha": 8.0, **settings}
    return Tuner(small_base(), TuningConfig(**values))
