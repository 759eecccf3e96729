"""Exports for the embedded endpoint, which maps the files of the last one."""

import mmap
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf", reason="the extra `researcher` is not installed")
pytest.importorskip("peft", reason="the extra `researcher` is not installed")

import gguf
import torch

from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.export import export_gguf
from tests.researcher.tuning.small import small_tuner

NORMS = [f"blk.{layer}.{norm}.weight" for layer in range(2) for norm in ("attn_norm", "ffn_norm")]


def base_file(path: Path, width: int = 16) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    for name in (*NORMS, "output_norm.weight"):
        writer.add_tensor(name, np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_an_export_leaves_the_file_that_a_server_has_mapped(tmp_path: Path) -> None:
    tuner, base, served = small_tuner(), base_file(tmp_path / "base.gguf"), tmp_path / "served"
    first = export_gguf(tuner, base, served)
    assert first.model
    with first.model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        before = bytes(mapped)
        with torch.no_grad():
            for name, tensor in tuner.trained().items():
                tensor.fill_(2.0 if ".modules_to_save." in name else 0.5)
        second = export_gguf(tuner, base, served)
        assert second == first
        assert bytes(mapped) == before
    norms = {tensor.name: tensor.data for tensor in gguf.GGUFReader(first.model).tensors}
    assert all((norms[name] == 2.0).all() for name in NORMS)
    assert all((tensor.data == 0.5).all() for tensor in gguf.GGUFReader(first.lora).tensors)


def test_an_export_that_fails_leaves_the_last_one(tmp_path: Path) -> None:
    tuner, served = small_tuner(), tmp_path / "served"
    tuned = export_gguf(tuner, base_file(tmp_path / "base.gguf"), served)
    assert tuned.model
    before = tuned.model.read_bytes()
    with pytest.raises(TuningError, match="expected 64 bytes of fp32, got 32"):
        export_gguf(tuner, base_file(tmp_path / "other.gguf", 8), served)
    assert tuned.model.read_bytes() == before
    assert sorted(served.iterdir()) == [tuned.lora, tuned.model]
