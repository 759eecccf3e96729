"""The fp32 copy of a GGUF file: made once, by one process, or not at all."""

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="the extra `researcher` is not installed")

from serl.researcher.llm.models import MODELS, sha256_of
from serl.researcher.tuning.base import dequantised
from serl.researcher.tuning.errors import TuningError

GGUF = MODELS["tiny"].path
MAKE = (
    "import sys, pathlib; from serl.researcher.tuning.base import dequantised; dequantised(pathlib.Path(sys.argv[1]))"
)


@pytest.mark.long
@pytest.mark.skipif(not GGUF.exists(), reason="needs the model: serl llm fetch tiny")
def test_two_runs_that_start_at_once_share_a_copy(tmp_path: Path) -> None:
    path = Path(shutil.copy(GGUF, tmp_path / "model.gguf"))
    left = tmp_path / ".model.fp32"  # by a process that was killed
    left.mkdir()
    (left / "model.safetensors").write_text("half")
    running = [subprocess.Popen([sys.executable, "-c", MAKE, path], stderr=subprocess.PIPE) for _ in range(2)]
    errors = [one.communicate()[1].decode()[-300:] for one in running]
    assert [one.returncode for one in running] == [0, 0], errors
    assert {one.name for one in tmp_path.iterdir()} == {"model.gguf", "model.fp32", "model.fp32.lock"}
    assert (tmp_path / "model.fp32/serl-sha256.txt").read_text() == sha256_of(path)


@pytest.mark.long
@pytest.mark.skipif(not GGUF.exists(), reason="needs the model: serl llm fetch tiny")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    path, limits = Path(shutil.copy(GGUF, tmp_path / "model.gguf")), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000_000, limits[1]))
    try:
        with pytest.raises(TuningError, match=r"model.fp32: cannot be written .*File too large.*free disk space"):
            dequantised(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    (tmp_path / "model.fp32.lock").mkdir()  # also refuses root
    with pytest.raises(TuningError, match=r"model.fp32: cannot be written .*free disk space, or run as a user who may"):
        dequantised(tmp_path / "model.gguf")
