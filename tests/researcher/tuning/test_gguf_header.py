"""The header of GGUF files, against the reader of gguf."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf", reason="the extra `researcher` is not installed")

import gguf

from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.gguf_header import read_header
from serl.researcher.tuning.memory import Sizes, sizes_of


def written(path: Path, alignment: int | None) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_block_count(3)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_token_list(["one", "zwei", "três", ""])
    writer.add_token_types([1, 2, 3, 4])
    writer.add_array("test.nested", [["a", "bc"], ["d"]])
    writer.add_bool("test.bool", True)
    writer.add_float32("test.float", 0.25)
    writer.add_float64("test.double", 1e300)
    for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"):
        getattr(writer, f"add_{name}")(f"test.{name}", 100)
    writer.add_tensor("token_embd.weight", np.ones((4, 64), np.float32))
    writer.add_tensor("odd", np.ones(5, np.float16))
    quantised = gguf.quantize(np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("quantised", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("alignment", [None, 64])
def test_it_is_what_the_reader_of_gguf_reads(alignment: int | None, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    written(path, alignment)
    reader, header = gguf.GGUFReader(path), read_header(path)
    arrays = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "test.nested"}
    named = {name for name in reader.fields if not name.startswith("GGUF.")}
    assert set(header.values) == named - arrays and arrays < named
    assert all(reader.fields[name].contents() == value for name, value in header.values.items())
    places = {name: (one.offset, one.n_bytes, one.n_elements) for name, one in header.tensors.items()}
    assert places == {one.name: (one.data_offset, one.n_bytes, one.n_elements) for one in reader.tensors}
    assert sizes_of(path) == Sizes(4 * 64 + 5 + 128, 3, 64, 96, 4)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGML" + bytes(100))
    with pytest.raises(TuningError, match="expected a GGUF file of version 2 or 3"):
        read_header(tmp_path / "a.gguf")
    (tmp_path / "a.gguf").write_bytes(b"GGUF\x01" + bytes(100))
    with pytest.raises(TuningError, match="convert the model again"):
        read_header(tmp_path / "a.gguf")


@pytest.mark.parametrize("n_bytes", [5, 30, 200])
def test_a_file_that_is_cut_off_is_refused(n_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    written(path, None)
    path.write_bytes(path.read_bytes()[:n_bytes])
    with pytest.raises(TuningError, match=r"a.gguf: expected a whole GGUF file"):
        read_header(path)
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 100)
    with pytest.raises(TuningError, match=r"a.gguf: expected a whole GGUF file"):
        read_header(path)
