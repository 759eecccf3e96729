"""The 8-bit copy of a model that llama.cpp serves."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf", reason="the extra `researcher` is not installed")

import gguf

from serl.researcher.llm import models
from serl.researcher.llm.eight_bit import served_file
from serl.researcher.llm.errors import ModelFileError

ROWS, COLUMNS = 6, 64
FOUR, EIGHT, FULL = gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32


def write_model(path: Path) -> None:
    """A file with a tensor of each type, and fields of several."""
    random = np.random.default_rng(0)
    weights = random.normal(0, 1, (ROWS, COLUMNS)).astype(np.float32)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(3)
    writer.add_token_list(["<s>", "a", "ö"])
    writer.add_float32("llama.rope.freq_base", 10_000.0)
    writer.add_tensor("blk.0.ffn_up.weight", gguf.quants.quantize(weights, FOUR), raw_dtype=FOUR)
    writer.add_tensor("token_embd.weight", gguf.quants.quantize(weights, EIGHT), raw_dtype=EIGHT)
    writer.add_tensor("output_norm.weight", weights[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a pinned model `small`."""
    monkeypatch.setenv("SERL_MODELS", str(tmp_path))
    small = replace(models.MODELS["tiny"], name="small", file="small.Q4_1.gguf", eight_bit=True)
    monkeypatch.setitem(models.MODELS, "small", small)
    write_model(small.path)
    return small.path


def read(path: Path) -> tuple[dict[str, Any], dict[str, tuple[Any, Any]]]:
    """Fields, and types and values of tensors."""
    reader = gguf.GGUFReader(path)
    tensors = {one.name: (one.tensor_type, gguf.quants.dequantize(one.data, one.tensor_type)) for one in reader.tensors}
    fields = {name: one.contents() for name, one in reader.fields.items() if not name.startswith("GGUF.")}
    return fields, tensors


def test_four_bit_weights_are_written_with_eight_bits_and_all_else_is_kept(pinned: Path) -> None:
    copy = served_file("small")
    assert copy.name == "small.Q4_1.Q8_0.gguf" and copy.parent == pinned.parent
    (fields, tensors), (fields_before, before) = read(copy), read(pinned)
    assert fields.pop("general.file_type") == gguf.LlamaFileType.MOSTLY_Q8_0 and fields_before.pop("general.file_type")
    assert fields == fields_before
    assert [kind for kind, _ in tensors.values()] == [EIGHT, EIGHT, FULL]
    for name in ("token_embd.weight", "output_norm.weight"):
        np.testing.assert_array_equal(tensors[name][1], before[name][1])
    found, expected = tensors["blk.0.ffn_up.weight"][1], before["blk.0.ffn_up.weight"][1]
    largest = np.abs(expected).reshape(ROWS, -1, 32).max(-1).repeat(32, axis=-1).reshape(expected.shape)
    assert np.abs(found - expected).max() > 0
    assert (np.abs(found - expected) <= largest * (1 / 254 + 1e-3)).all()  # 1e-3: scales are fp16


def test_the_copy_is_made_once_and_other_models_have_none(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = served_file("small")
    made_ns = first.stat().st_mtime_ns
    assert served_file("small") == first and first.stat().st_mtime_ns == made_ns
    assert served_file(str(pinned)) == pinned
    monkeypatch.setitem(models.MODELS, "small", replace(models.MODELS["small"], eight_bit=False))
    assert served_file("small") == pinned


def test_a_folder_that_cannot_be_written_is_said(pinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    with pytest.raises(ModelFileError, match=r"cannot be written .* serl llm unpack small"):
        served_file("small")
    monkeypatch.undo()
