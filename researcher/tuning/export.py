"""What was tuned, for those who serve it: the embedded endpoint (GGUF), vLLM (peft's format), anyone (merged)."""

import copy
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.tuner import Tuner


@dataclass(frozen=True)
class Tuned:
    """Files for the embedded endpoint: `served.restart(tuned.lora, tuned.model)`."""

    lora: Path
    model: Path | None
    """The base model with the tuned norms, which a GGUF adapter cannot hold; None where norms were not tuned."""


def export_gguf(tuner: Tuner, gguf: Path, folder: Path) -> Tuned:
    """Writes `adapter.gguf`, and `model.gguf` where norms were tuned, for the base model in `gguf`."""
    folder.mkdir(parents=True, exist_ok=True)
    lora = folder / "adapter.gguf"
    _write_lora(tuner, gguf, lora)
    norms = {name: tensor for name, tensor in tuner.trained().items() if ".modules_to_save." in name}
    if not norms:
        return Tuned(lora, None)
    model = folder / "model.gguf"
    shutil.copyfile(gguf, model)
    _write_norms({_inner_name(name): tensor.detach().numpy() for name, tensor in norms.items()}, tuner, gguf, model)
    return Tuned(lora, model)


def export_peft(tuner: Tuner, folder: Path) -> None:
    """Writes `adapter_config.json` and `adapter_model.safetensors`, which vLLM takes (--lora-modules, /v1/load_lora_adapter) and peft too.

    TuningError where norms were tuned: vLLM would leave them out without a word; merge then, or tune with `norms: false`.
    """
    require_fits_peft(tuner.config)
    tuner.model.save_pretrained(folder)


def require_fits_peft(config: TuningConfig) -> None:
    """TuningError where norms were tuned."""
    if config.norms:
        raise TuningError(
            "norms: were tuned too, and vLLM leaves them out of an adapter in peft's format; use export_merged "
            "(serl llm export --to merged), or tune with norms: false"
        )


def export_merged(tuner: Tuner, folder: Path) -> None:
    """Writes the whole tuned model for transformers, vLLM and converters; the tuner itself stays as it is."""
    with torch.no_grad():
        merged = copy.deepcopy(tuner.model).merge_and_unload()
    merged.save_pretrained(folder)
    tuner.base.tokenizer.save_pretrained(folder)


def _inner_name(name: str) -> str:
    """Of a trained module in the model itself, without what peft puts around it."""
    name = name.removeprefix("base_model.model.").removesuffix(".weight")
    for shell in (".lora_A.default", ".lora_B.default", ".modules_to_save.default"):
        name = name.replace(shell, "")
    return name


@dataclass(frozen=True)
class _Layout:
    """Of a GGUF file: its architecture, and place and size in bytes of each tensor."""

    architecture: str
    places: dict[str, tuple[int, int]]


@lru_cache(maxsize=2)
def _layout(gguf: Path) -> _Layout:
    """Kept, because the reader takes seconds for the vocabulary."""
    from gguf import GGUFReader

    reader = GGUFReader(gguf)
    field = reader.get_field("general.architecture")
    places = {tensor.name: (int(tensor.data_offset), int(tensor.n_bytes)) for tensor in reader.tensors}
    return _Layout(str(field.contents()) if field else "none", places)


def _names(tuner: Tuner, gguf: Path) -> Any:
    """The map from transformers' names to those in a GGUF."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    known = {text: arch for arch, text in MODEL_ARCH_NAMES.items()}
    name = _layout(gguf).architecture
    if name not in known:
        raise TuningError(f"{gguf}: an architecture that gguf knows is due, got {name}")
    return get_tensor_name_map(known[name], tuner.base.model.config.num_hidden_layers)


def _write_lora(tuner: Tuner, gguf: Path, path: Path) -> None:
    from gguf import GGUFWriter

    architecture, names = _layout(gguf).architecture, _names(tuner, gguf)
    writer = GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", tuner.config.alpha)
    for name, tensor in tuner.trained().items():
        if ".lora_" not in name:
            continue
        side = "a" if ".lora_A." in name else "b"
        inner = names.get_name(_inner_name(name))
        rows = tensor.detach().numpy().astype(np.float32)
        if architecture == "llama" and side == "b":
            rows = _rotary_order(rows, inner, tuner.base.model.config)
        writer.add_tensor(f"{inner}.weight.lora_{side}", rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _rotary_order(rows: NDArray[np.float32], name: str, config: Any) -> NDArray[np.float32]:
    """llama.cpp keeps the two halves of each rotary pair side by side, transformers one half after the other."""
    if not name.endswith(("attn_q", "attn_k")):
        return rows
    heads = config.num_attention_heads if name.endswith("attn_q") else config.num_key_value_heads
    pairs = rows.reshape(heads, 2, len(rows) // heads // 2, -1)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows.shape))


def _write_norms(norms: dict[str, NDArray[np.float32]], tuner: Tuner, gguf: Path, copied: Path) -> None:
    """Puts the norms' scales into the copy in place of those of the base, which are fp32 in every quantisation."""
    names, places = _names(tuner, gguf), _layout(gguf).places
    with copied.open("r+b") as file:
        for name, values in norms.items():
            tensor = f"{names.get_name(name)}.weight"
            offset, n_bytes = places[tensor]
            data = values.astype("<f4").tobytes()
            if n_bytes != len(data):
                raise TuningError(f"{gguf}: {tensor}: {len(data)} bytes of fp32 are due, got {n_bytes}")
            file.seek(offset)
            file.write(data)
