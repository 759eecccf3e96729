"""How much memory an update of a model needs, so that a run that does not fit fails before it starts.

    4 bytes · (parameters + tokens · trained layers · (10 hidden + 5 intermediate) + scored tokens · 6 vocabulary) + .4 GB

A run also needs .5 GB for what is cached of modules (see `trunk`). Tokens are those of a microbatch: activations are kept for the backward pass, and
without a grammar so are the logits of policy and start. The factors follow the tensors of a Llama layer; measured on `tiny` (docs/models.md).
"""

import json
from dataclasses import dataclass
from pathlib import Path

from serl.researcher.modules.contracts import Form
from serl.researcher.tuning.base import dequantised_folder
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.gguf_header import read_header

KEPT_BYTES = 256_000_000
"""Limit of each of a tuner's two caches: about 200 modules of the tiny model at 500 tokens."""

RUNTIME_BYTES = 400_000_000
"""Python, PyTorch and transformers."""
PROMPT_TOKENS = 600
MODULE_TOKENS: dict[Form, int] = {"spec": 200, "code": 400}
"""Sizes of prompts and modules that a run must have room for."""
MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model."""

    parameters: int
    layers: int
    hidden: int
    intermediate: int
    vocabulary: int


def sizes_of(gguf: Path) -> Sizes:
    """The sizes of a GGUF file, from its fp32 copy if there is one, else from its header."""
    folder = dequantised_folder(gguf)
    if (folder / "config.json").exists():
        found = json.loads((folder / "config.json").read_text())
        n_bytes = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        return Sizes(
            n_bytes // 4,
            found["num_hidden_layers"],
            found["hidden_size"],
            found["intermediate_size"],
            found["vocab_size"],
        )
    header = read_header(gguf)
    name = header.values.get("general.architecture", "")
    parts = ("block_count", "embedding_length", "feed_forward_length")
    values = [header.values[key] for part in parts if (key := f"{name}.{part}") in header.values]
    if len(values) < len(parts) or "token_embd.weight" not in header.tensors:
        raise TuningError(
            f"{gguf}: expected a model with layers and an embedding, got {name or 'no architecture'}; use another GGUF file"
        )
    layers, hidden, intermediate = values
    vocabulary = header.tensors["token_embd.weight"].n_elements // hidden
    parameters = sum(tensor.n_elements for tensor in header.tensors.values())
    return Sizes(parameters, layers, hidden, intermediate, vocabulary)


def needed_bytes(
    sizes: Sizes, layers: int | None, microbatch: int, prompt_tokens: int, module_tokens: int, form: Form
) -> int:
    """Peak memory of a process that tunes the uppermost layers of the model (None: all) in fp32 and keeps nothing of earlier modules."""
    tokens = microbatch * (prompt_tokens + module_tokens)
    trained = sizes.layers if layers is None else min(layers, sizes.layers)
    activations = tokens * trained * (10 * sizes.hidden + 5 * sizes.intermediate)
    logits = 0 if form == "spec" else microbatch * module_tokens * 6 * sizes.vocabulary
    return 4 * (sizes.parameters + activations + logits) + RUNTIME_BYTES


def available_bytes() -> int | None:
    """Memory that a new process can use: the machine's free memory, or the rest of the container's limit; None if the system does not report it."""
    if not MEMINFO.exists():
        return None
    rows = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    free = int(rows["MemAvailable"].split()[0]) * 1024
    limit = CGROUP / "memory.max"
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        usage = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        cached = int(usage["active_file"]) + int(usage["inactive_file"])  # freed when memory is needed
        free = min(free, int(text) - int((CGROUP / "memory.current").read_text()) + cached)
    return free


def gpu_available_bytes() -> int | None:
    """Free memory of the GPU; None without a GPU, which the tuner reports."""
    import torch

    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else None


def require_memory(gguf: Path, config: TuningConfig, form: Form) -> None:
    """Raise TuningError if the updates of a model do not fit into the available memory."""
    layers = None if config.estimator == "straight_through" else config.layers  # its gradient flows through all
    sizes, module = sizes_of(gguf), MODULE_TOKENS[form]
    needed = needed_bytes(sizes, layers, config.microbatch, PROMPT_TOKENS, module, form) + 2 * KEPT_BYTES
    found = available_bytes() if config.device == "cpu" else gpu_available_bytes()
    if found is not None and needed > found:
        raise TuningError(
            f"{gguf.name}: tuning needs about {needed / 1e9:.1f} GB, {found / 1e9:.1f} GB are available; set low_level: false, "
            f"a smaller low_level.tuning.microbatch (now {config.microbatch}), or use a smaller model"
        )
