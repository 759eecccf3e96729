"""Signals while LLVM loads compiled code and calls back into Python."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys
import numba.core.codegen as codegen
from numba import njit
from serl.signals import unwind_on_signals

loads, sent = codegen.JITCodeLibrary._object_getbuffer_hook, []

def load_and_signal(cls, module):
    found = loads.__func__(cls, module)
    if found is not None and not sent:
        sent.append(True)
        os.kill(os.getpid(), int(sys.argv[1]))
    return found

codegen.JITCodeLibrary._object_getbuffer_hook = classmethod(load_and_signal)

@njit(cache=True)
def more(x):
    return x + 1

unwind_on_signals()
print(more(1))
while sent:
    signal.pause()
"""


@pytest.mark.parametrize(
    ("number", "words"),
    [pytest.param(signal.SIGINT, "KeyboardInterrupt", marks=pytest.mark.long), (signal.SIGTERM, "stopped (SIGTERM)")],
)
def test_a_signal_during_the_loading_of_compiled_code_is_raised_afterwards(
    tmp_path: Path, number: int, words: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(int(number))]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert (compiled.returncode, compiled.stdout) == (0, "2\n"), compiled.stderr
    stopped = subprocess.run(command, capture_output=True, text=True)
    assert stopped.returncode in (128 + number, -number), stopped.stderr
    assert stopped.stdout == "2\n"
    assert words in stopped.stderr


IMPORTING = """
import signal
from serl.signals import unwind_on_signals

unwind_on_signals()
try:
    import pandas
    print("imported")
except BaseException:
    print("lost")
    raise SystemExit(1)
signal.pause()
"""


def test_an_interruption_while_pandas_is_imported_is_raised_afterwards(tmp_path: Path) -> None:
    """pyarrow imports it in compiled code that drops any error, so that Ctrl-C had no effect, or left half a pandas."""
    (tmp_path / "pandas.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    (tmp_path / "program.py").write_text(IMPORTING)
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "imported\n"), done.stderr


FREEING = """
import signal, sys, weakref
from serl.signals import unwind_on_signals

class Value:
    def __del__(self):
        if sys.argv[1] == "__del__":
            signal.raise_signal(signal.SIGINT)

class Key:
    def __hash__(self):
        if found and sys.argv[1] == "weakref":
            signal.raise_signal(signal.SIGINT)
        return 1

unwind_on_signals()
value, found = Value(), weakref.WeakValueDictionary()
found[Key()] = value
print(len(found))
del value  # and its entry, for which the key is hashed
signal.pause()
"""


@pytest.mark.parametrize("where", ["__del__", "weakref"])
def test_an_interruption_while_an_object_is_freed_is_raised_afterwards(where: str) -> None:
    """Python only prints what is raised there, so that Ctrl-C had no effect."""
    done = subprocess.run([sys.executable, "-c", FREEING, where], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "1\n"), done.stderr
    assert "ignored" not in done.stderr


CLASS = """
import os, signal
from serl import cli

class Interrupted:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGINT)

def run():
    class Made:
        name = Interrupted()

cli._run = run
cli.main()
"""


def test_an_interruption_while_a_class_is_created_is_one() -> None:
    """Python makes a RuntimeError of it."""
    done = subprocess.run([sys.executable, "-c", CLASS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "stopped (SIGINT)\n")
    broken = CLASS.replace("os.kill(os.getpid(), signal.SIGINT)", "raise RuntimeError('broken') from ValueError()")
    done = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True)
    assert done.returncode == 1 and "broken" in done.stderr


def test_an_interruption_while_a_text_is_executed_gives_the_usual_status(tmp_path: Path) -> None:
    """Dataclasses execute texts; `python -m` remembers that one was interrupted."""
    (tmp_path / "interrupted.py").write_text(
        "import signal\nfrom serl import cli\n"
        "cli._run = lambda: exec('signal.raise_signal(signal.SIGINT)')\ncli.main()\n"
    )
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "stopped (SIGINT)\n")
