"""Where compiled code is kept, and that nothing is compiled twice at once."""

import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import pytest

import serl
from serl.exchange import code_cache, compiling


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


def test_a_folder_that_another_user_made_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As after `sudo serl doctor`: numba would store the code elsewhere, under names that stay the same after an update."""
    read_only = tmp_path / "serl" / "__pycache__" / "serl-00000000"
    read_only.mkdir(parents=True)
    access = os.access  # root may write everywhere
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != read_only and access(path, mode))
    monkeypatch.setattr(serl, "__file__", str(tmp_path / "serl" / "__init__.py"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert code_cache._folder() == tmp_path / "home" / "serl" / "serl-00000000"
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    assert code_cache._folder() == read_only, "the code in it can be loaded"


def test_code_is_loaded_from_a_read_only_folder_and_none_is_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for module in (code_cache, compiling):
        monkeypatch.setattr(module, "FOLDER", kept)
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(SOURCE)
    runpy.run_path(str(tmp_path / "first.py"))
    stored = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
    assert any(path.suffix == ".nbi" for path in stored)
    for module in (code_cache, compiling):
        monkeypatch.setattr(module, "is_writable", lambda: False)
    first, second = (runpy.run_path(str(tmp_path / f"{name}.py"))["double"] for name in ("first", "second"))
    assert sum(first.stats.cache_hits.values()) == 1
    assert second(4) == 8 and not second.stats.cache_hits
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*")} == stored


def test_compiling_ahead_where_nothing_can_be_stored_is_refused(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": "/proc/none"}
    done = subprocess.run(
        [sys.executable, "-m", "serl", "exchange", "compile"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 2 and done.stderr.startswith("error: /proc/none/serl-"), done.stderr
    assert "set NUMBA_CACHE_DIR" in done.stderr and done.stderr.count("\n") == 1
