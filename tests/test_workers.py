"""Tests that run in forks: nothing is lost, and a fork that dies is a failure."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = {
    "test_good.py": "def test_a(tmp_path): pass\ndef test_b(tmp_path): pass\n",
    "test_skipped.py": "import pytest\n@pytest.mark.skip(reason='why')\ndef test_c(): pass\n",
    "test_bad.py": "def test_d():\n    print('printed')\n    assert 1 == 2\ndef test_e(): pass\n",
    "test_dead.py": "import os\ndef test_f(): pass\ndef test_g(): os._exit(7)\ndef test_h(): pass\n",
}


def run(folder: Path, *options: str, names: tuple[str, ...] = tuple(MODULES)) -> "subprocess.CompletedProcess[str]":
    """pytest in two workers."""
    for name in names:
        (folder / name).write_text(MODULES[name])
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.workers", "--workers", "2", "-ra", *options, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.long
def test_all_tests_run_once_and_a_dead_worker_is_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 1, done.stdout
    assert re.search(r"3 failed, 4 passed, 1 skipped", done.stdout), done.stdout
    assert "its process ended with status 7" in done.stdout and "has not run" in done.stdout, done.stdout
    assert sorted(re.findall(r"FAILED .*::(test_[a-z])", done.stdout)) == ["test_d", "test_g", "test_h"], done.stdout
    assert "assert 1 == 2" in done.stdout and "printed" in done.stdout and "why" in done.stdout


@pytest.mark.long
def test_the_first_failure_ends_the_run_with_x(tmp_path: Path) -> None:
    done = run(tmp_path, "-x", names=("test_bad.py",))
    assert done.returncode == 1 and "stopping after 1 failures" in done.stdout and "1 failed in" in done.stdout


@pytest.mark.long
def test_good_tests_pass(tmp_path: Path) -> None:
    done = run(tmp_path, names=("test_good.py", "test_skipped.py"))
    assert done.returncode == 0 and "2 passed, 1 skipped" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_tests_wait_for_what_runs_meanwhile_and_need_its_success(tmp_path: Path) -> None:
    slow = f"import pathlib, time; time.sleep(2); pathlib.Path({str(tmp_path / 'made')!r}).touch(); print('said')"
    (tmp_path / "test_made.py").write_text(
        f"import pathlib\ndef test_i(): assert pathlib.Path({str(tmp_path / 'made')!r}).exists()\n"
    )
    done = run(tmp_path, "--meanwhile", shlex.join([sys.executable, "-c", slow]), names=("test_good.py",))
    assert done.returncode == 0 and "3 passed" in done.stdout and "said" in done.stdout, done.stdout + done.stderr
    done = run(tmp_path, "--meanwhile", shlex.join([sys.executable, "-c", "raise SystemExit(3)"]), names=())
    assert done.returncode == 1 and "failed with status 3" in done.stdout and "passed" not in done.stdout, done.stdout
