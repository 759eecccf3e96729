"""Export of a tuned model: GGUF for the embedded endpoint, peft's format for vLLM, or merged for any server."""

import copy
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from serl.exchange.atomic_file import atomic_file
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.gguf_header import read_header
from serl.researcher.tuning.tuner import Tuner


@dataclass(frozen=True)
class Tuned:
    """Files for the embedded endpoint: `served.restart(tuned.lora, tuned.model)`."""

    lora: Path
    model: Path | None
    """The base model with tuned norms, which a GGUF adapter cannot contain; None if norms were not tuned."""


def export_gguf(tuner: Tuner, gguf: Path, folder: Path) -> Tuned:
    """Write `adapter.gguf` for the base model in `gguf`, and `model.gguf` if norms were tuned. Each replaces its predecessor, which a server may have
    mapped, once it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    lora, made = folder / "adapter.gguf", folder / ".adapter.gguf"
    _write_lora(tuner, gguf, made)
    made.replace(lora)
    norms = {name: tensor for name, tensor in tuner.trained().items() if ".modules_to_save." in name}
    if not norms:
        return Tuned(lora, None)
    model = folder / "model.gguf"
    with gguf.open("rb") as base, atomic_file(model) as file:
        shutil.copyfileobj(base, file)
        _write_norms(
            {_base_name(name): tensor.detach().cpu().numpy() for name, tensor in norms.items()}, tuner, gguf, file
        )
    return Tuned(lora, model)


def export_peft(tuner: Tuner, folder: Path) -> None:
    """Write `adapter_config.json` and `adapter_model.safetensors`, for peft and vLLM (--lora-modules, /v1/load_lora_adapter).

    TuningError if norms were tuned: vLLM would silently ignore them. Export the merged model then, or tune with `norms: false`.
    """
    require_fits_peft(tuner.config)
    tuner.model.save_pretrained(folder)


def require_fits_peft(config: TuningConfig) -> None:
    """Raise TuningError if norms are tuned."""
    if config.norms:
        raise TuningError(
            "norms: vLLM ignores tuned norms in an adapter of peft's format; use export_merged "
            "(serl llm export --to merged), or tune with norms: false"
        )


def export_merged(tuner: Tuner, folder: Path) -> None:
    """Write the merged model for transformers, vLLM and converters. The tuner does not change."""
    with torch.no_grad():
        merged = copy.deepcopy(tuner.model).merge_and_unload()
    merged.save_pretrained(folder)
    tuner.base.tokenizer.save_pretrained(folder)


def _base_name(name: str) -> str:
    """The name of a trained module in the base model, without peft's prefixes."""
    name = name.removeprefix("base_model.model.").removesuffix(".weight")
    for shell in (".lora_A.default", ".lora_B.default", ".modules_to_save.default"):
        name = name.replace(shell, "")
    return name


def _names(tuner: Tuner, gguf: Path) -> tuple[str, Any]:
    """The architecture of a GGUF, and the map from transformers' names to those in it."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    known = {text: arch for arch, text in MODEL_ARCH_NAMES.items()}
    name = read_header(gguf).values.get("general.architecture", "none")
    if name not in known:
        raise TuningError(f"{gguf}: expected an architecture that gguf knows, got {name}")
    return name, get_tensor_name_map(known[name], tuner.base.model.config.num_hidden_layers)


def _write_lora(tuner: Tuner, gguf: Path, path: Path) -> None:
    from gguf import GGUFWriter

    architecture, names = _names(tuner, gguf)
    writer = GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", tuner.config.alpha)
    for name, tensor in tuner.trained().items():
        if ".lora_" not in name:
            continue
        side = "a" if ".lora_A." in name else "b"
        inner = names.get_name(_base_name(name))
        rows = tensor.detach().cpu().numpy().astype(np.float32)
        if architecture == "llama" and side == "b":
            rows = _rotary_order(rows, inner, tuner.base.model.config)
        writer.add_tensor(f"{inner}.weight.lora_{side}", rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _rotary_order(rows: NDArray[np.float32], name: str, config: Any) -> NDArray[np.float32]:
    """Reorder rows for llama.cpp, which interleaves the rotary pairs that transformers stores in two halves."""
    if not name.endswith(("attn_q", "attn_k")):
        return rows
    heads = config.num_attention_heads if name.endswith("attn_q") else config.num_key_value_heads
    pairs = rows.reshape(heads, 2, len(rows) // heads // 2, -1)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows.shape))


def _write_norms(norms: dict[str, NDArray[np.float32]], tuner: Tuner, gguf: Path, copied: IO[bytes]) -> None:
    """Overwrite the norms' scales in the copy. They are fp32 in every quantisation."""
    (_, names), places = _names(tuner, gguf), read_header(gguf).tensors
    for name, values in norms.items():
        tensor = f"{names.get_name(name)}.weight"
        place, data = places[tensor], values.astype("<f4").tobytes()
        if place.n_bytes != len(data):
            raise TuningError(f"{gguf}: {tensor}: expected {len(data)} bytes of fp32, got {place.n_bytes}")
        copied.seek(place.offset)
        copied.write(data)
