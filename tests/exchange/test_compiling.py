"""Where compiled code is kept, and that nothing is compiled twice at once."""

from pathlib import Path

import pytest

from serl.exchange import compiling


def test_the_second_caller_waits_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "FOLDER", tmp_path)
    with pytest.raises(BlockingIOError), compiling.alone("book"), compiling.alone("book", _refuse):
        pass
    assert not compiling.is_kept("book"), "what failed is not there"
    with compiling.alone("book"):
        assert not compiling.is_kept("book")
    assert compiling.is_kept("book")


def _refuse() -> None:
    raise BlockingIOError


def test_the_folder_is_named_after_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    before = compiling._folder()
    monkeypatch.setattr(compiling, "CONSTANTS", ())
    assert before.parent == tmp_path and compiling._folder() != before
