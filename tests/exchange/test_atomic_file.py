"""What a written file may replace: another file, and nothing else."""

import os
from pathlib import Path

import pytest

from serl.exchange.atomic_file import atomic_file, require_other_file
from serl.exchange.errors import SerlError


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe"])
def test_only_a_file_is_replaced(kind: str, tmp_path: Path) -> None:
    """With `-o /dev/null`, a command of root put a file in the place of the device, for every process of the machine."""
    path = tmp_path / "output"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe") if kind == "link to a pipe" else os.mkfifo(path)
    before = sorted((each.name, each.lstat().st_ino) for each in tmp_path.iterdir())
    with pytest.raises(SerlError, match="output: expected a file to write, got a "):
        require_other_file(path)
    with pytest.raises(SerlError, match="output: expected a file to write, got a "), atomic_file(path) as file:
        file.write(b"x")
    assert sorted((each.name, each.lstat().st_ino) for each in tmp_path.iterdir()) == before


def test_a_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    """`-o /dev/stdout > x.day` replaced the link /dev/stdout."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/file")
    for text in (b"new", b"replaced"):
        with atomic_file(tmp_path / "link") as file:
            file.write(text)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "folder" / "file").read_bytes() == text
    assert [each.name for each in (tmp_path / "folder").iterdir()] == ["file"]
