"""Reading the files that a job left."""

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from serl.researcher.sandbox.errors import ReturnedError
from serl.researcher.sandbox.returned import TENSORS_MAX, read_bytes, read_json, read_tensors


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "../a", "a\0b"])
def test_names_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReturnedError, match="directly in the folder"):
        read_bytes(tmp_path, name, 10)


def test_only_regular_files_of_one_name_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    os.symlink("file", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "two").write_text("{}")
    os.link(tmp_path / "two", tmp_path / "names")
    assert read_json(tmp_path, "file") == {}
    for name in ("link", "pipe", "folder", "names", "missing"):
        with pytest.raises(ReturnedError, match=name):
            read_json(tmp_path, name)


def test_sizes_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 11)
    assert read_bytes(tmp_path, "file", 11) == b"x" * 11
    with pytest.raises(ReturnedError, match="at most 10 bytes"):
        read_bytes(tmp_path, "file", 10)


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", "[" * 100_000, "1" * 10_000, "\xff"])
def test_json_is_strict(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_bytes(text.encode("latin-1"))
    with pytest.raises(ReturnedError):
        read_json(tmp_path, "a")


def test_tensors_come_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(save({"w": np.arange(3, dtype=np.float32)}))
    assert read_tensors(tmp_path, "a")["w"].tolist() == [0.0, 1.0, 2.0]


def claims(**entry: object) -> bytes:
    """A file of one tensor that says what is given, over 8 bytes of data."""
    head = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | entry}).encode()
    return struct.pack("<Q", len(head)) + head + bytes(8)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 64,
        claims(shape=[10**12]),
        claims(data_offsets=[0, 10**12]),
        claims(dtype="PICKLE"),
        claims(shape="x"),
        save({"w": np.array([1.0, np.nan])}),
        save({"w": np.array([np.inf], np.float16)}),
        save({str(number): np.zeros(1) for number in range(TENSORS_MAX + 1)}),
    ],
    ids=["empty", "noise", "large shape", "beyond the end", "dtype", "shape", "NaN", "infinity", "too many"],
)
def test_tensors_that_are_none_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ReturnedError, match=r"^a: "):
        read_tensors(tmp_path, "a")
