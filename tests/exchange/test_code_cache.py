"""Where compiled code is kept, and that nothing is compiled twice at once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serl.exchange import code_cache


def test_the_second_caller_waits_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "FOLDER", tmp_path)
    with pytest.raises(BlockingIOError), code_cache.alone("book"), code_cache.alone("book", _refuse):
        pass
    assert not code_cache.is_kept("book"), "what failed is not there"
    with code_cache.alone("book"):
        assert not code_cache.is_kept("book")
    assert code_cache.is_kept("book")


def _refuse() -> None:
    raise BlockingIOError


SOURCE = """
from serl.exchange.compiling import compiled

@compiled
def double(number):
    return 2 * number

print("asks", flush=True)
double(1)
"""


@pytest.mark.long
def test_a_function_that_another_process_compiles_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "double.py").write_text(SOURCE)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(code_cache, "FOLDER", code_cache._folder())
    command = [sys.executable, str(tmp_path / "double.py")]
    with code_cache.alone("__main__.double"):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == b"asks\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
    assert process.wait(60) == 0


def test_the_folder_is_named_after_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    before = code_cache._folder()
    monkeypatch.setattr(code_cache, "CONSTANTS", ())
    assert before.parent == tmp_path and code_cache._folder() != before


def test_a_new_folder_leaves_those_that_a_process_may_run_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    young, old, foreign = tmp_path / "serl-00000001", tmp_path / "serl-00000002", tmp_path / "numpy"
    before = time.time() - (code_cache.UNUSED_DAYS + 1) * 86_400
    for folder in (young, old, foreign):
        folder.mkdir()
    for folder in (old, foreign):
        os.utime(folder, (before, before))
    current = code_cache._folder()
    assert set(tmp_path.iterdir()) == {current, young, foreign}
    os.utime(current, (before, before))
    assert code_cache._folder() == current
    assert current.stat().st_mtime > before + 86_400, "a start counts as use"


def test_what_compiles_beside_a_command_yields_to_it_and_gets_no_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_cache, "FOLDER", tmp_path)
    with code_cache.precompiling("book", niceness=3) as (process,):
        assert os.getpgid(process.pid) != os.getpgid(0)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(19, own + 3)
    assert process.returncode is not None, "it ends with the context"
