"""Base models for tuning. A GGUF file is dequantised to fp32 once; the copy is stored next to it as safetensors."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from serl.researcher.llm.models import sha256_of
from serl.researcher.tuning.errors import TuningError

_HASH = "serl-sha256.txt"


@dataclass(frozen=True)
class Base:
    """A transformers model and its tokenizer."""

    path: Path
    """The GGUF file, or the folder of transformers."""
    model: Any
    tokenizer: Any
    sha256: str = ""
    """Hash of the GGUF file, or of the folder's weights: adapters and experience are used only with the model that they belong to."""

    @property
    def n_vocabulary(self) -> int:
        """Size of the vocabulary: rows of the output layer."""
        return int(self.model.config.vocab_size)

    def prompt_ids(self, messages: list[dict[str, str]]) -> tuple[int, ...]:
        """Token ids of a conversation in the model's chat template, up to the start of the answer."""
        ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return tuple(int(number) for number in ids)

    def text_ids(self, text: str) -> tuple[int, ...]:
        """Token ids of a text without special tokens."""
        return tuple(int(number) for number in self.tokenizer.encode(text, add_special_tokens=False))


def load_base(path: Path) -> Base:
    """Load a GGUF file or a folder of transformers in fp32. TuningError if it is neither.

    A GGUF file is dequantised the first time, which takes 5 s for 135 M parameters. The fp32 copy takes four bytes per parameter.
    """
    if not path.exists():
        raise TuningError(f"{path}: expected a .gguf file or a folder of transformers, got nothing there")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = path if path.is_dir() else dequantised(path)
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise TuningError(f"{path}: cannot be loaded by transformers ({error})") from None
    return Base(path, model, tokenizer, _sha256(folder))


def _sha256(folder: Path) -> str:
    """The hash of the GGUF file that a copy was made from, or of the weights in a folder."""
    if (folder / _HASH).exists():
        return (folder / _HASH).read_text()
    weights = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
    return hashlib.sha256("".join(map(sha256_of, weights)).encode()).hexdigest()


def dequantised_folder(path: Path) -> Path:
    """The folder of a GGUF file's fp32 copy."""
    return path.with_suffix(".fp32")


def dequantised(path: Path) -> Path:
    """The fp32 copy of a GGUF file; made if there is no copy with the file's hash. Other processes that need it wait meanwhile. TuningError if it
    cannot be written."""
    from safetensors import SafetensorError

    folder, digest = dequantised_folder(path), sha256_of(path)
    if _is_copy(folder, digest):
        return folder
    try:
        with folder.with_suffix(".fp32.lock").open("w") as lock:
            flock(lock, LOCK_EX)
            if not _is_copy(folder, digest):
                made = path.with_name(f".{folder.name}")
                for old in (folder, made):  # of another file, or of a process that was killed
                    shutil.rmtree(old, ignore_errors=True)
                _dequantise(path, made)
                (made / _HASH).write_text(digest)
                made.rename(folder)
    except (OSError, SafetensorError) as error:
        raise TuningError(
            f"{folder}: cannot be written ({error}); free disk space, or run as a user who may write there: serl llm unpack"
        ) from None
    return folder


def _is_copy(folder: Path, digest: str) -> bool:
    """Whether a folder is a whole copy of the GGUF file with this hash."""
    return folder.is_dir() and (folder / _HASH).read_text() == digest


@contextmanager
def _read_once() -> Iterator[None]:
    """Make loading a GGUF file faster. transformers reads the file three times, and maps the names of tensors again for each module: 10 s of 17.
    gguf slices the mapped file for each word of the vocabulary: slicing a plain array takes 4 s less."""
    import gguf

    reader, names = gguf.GGUFReader, gguf.get_tensor_name_map

    class ArrayReader(reader):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value.view(np.ndarray) if name == "data" else value)

    gguf.GGUFReader, gguf.get_tensor_name_map = cache(ArrayReader), cache(names)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = reader, names


def _dequantise(path: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, modeling_gguf_pytorch_utils

    # the progress bar cannot be switched off; disable=None hides it without a terminal
    modeling_gguf_pytorch_utils.tqdm = partial(modeling_gguf_pytorch_utils.tqdm, disable=None)
    place = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name, "local_files_only": True}
    try:
        with _read_once():
            model = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
            tokenizer = AutoTokenizer.from_pretrained(**place)
    except (OSError, ValueError, KeyError) as error:
        raise TuningError(f"{path}: cannot be loaded by transformers ({error})") from None
    # the model is fp32 now, but save_pretrained still treats it as quantised
    model.hf_quantizer, model.is_quantized, model.quantization_method = None, False, None
    del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
