"""The command line as a whole: quick help, errors in one line."""

import subprocess
import sys

import pytest

from serl.cli import COMMANDS

HELP = [
    [],
    *[[name] for name in COMMANDS],
    ["exchange", "start"],
    ["exchange", "status"],
    ["execute", "twap"],
    ["day", "import"],
]


def test_help_does_not_import_the_compiler() -> None:
    """Loading numba takes longer than reading the help."""
    code = (
        "import sys; from serl.cli import serl\n"
        f"for arguments in {HELP!r}:\n"
        "    try: serl([*arguments, '--help'])\n"
        "    except SystemExit as end: assert not end.code, arguments\n"
        "    assert 'numba' not in sys.modules, arguments"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage") >= len(HELP)


def test_the_market_is_loaded_when_it_is_asked_for() -> None:
    code = (
        "import sys, serl, serl.exchange\n"
        "assert 'numba' not in sys.modules and not hasattr(serl, 'Markt') and not hasattr(serl.exchange, 'Markt')\n"
        "from serl.exchange import Rejected, Side, Terms, TimeInForce\n"
        "assert 'numba' not in sys.modules\n"
        "from serl import Market; from serl.exchange import Market as same\n"
        "assert Market is same and 'numba' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_top_level_packages_cannot_be_imported_without_serl() -> None:
    done = subprocess.run([sys.executable, "-c", "import exchange"], capture_output=True, text=True)
    assert "import serl.exchange, not exchange" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["exchange", "start", "--clock", "sundial"], "--clock live, scaled:K, lockstep or lockstep:K"),
        (["exchange", "start", "--clock", "lockstep:quick"], "like lockstep:60"),
        (["exchange", "start", "--symbols", "A,A"], "each name once"),
        (["exchange", "start", "--symbols", "A=-1"], "positive decimal"),
        (["exchange", "start", "--endpoint", "nowhere"], "tcp://127.0.0.1:5570"),
        (["exchange", "start", "--config", "missing.yaml"], "cannot be read"),
        (["exchange", "start", "--endpoint", "tcp://0.0.0.0:5570"], "serl keys new"),
        (["replay", "missing.day", "--speed", "0"], "positive number"),
        (["replay", "missing.day", "--wait-for", "-1"], "-1 is not in the range x>=0"),
        (["replay", "missing.day", "--from", "48:00"], "--from: expected a time of day like 10:30 or 10:30:15, got '48:00'"),
        (["day", "generate", "--seed", "1", "--end", "08:00", "-o", "x.day"], "--end: expected a time after --start 09:30, got 08:00"),
        (["calibrate", "a.day", "-o", "b.yaml", "--trials", "0"], "0 is not in the range x>=1"),
        (["realism", "a.day", "b.day", "--window-real", "10-11"], "--window-real: expected a time of day like 10:30"),
    ],
)  # fmt: skip
def test_bad_options_are_one_line_errors(arguments: list[str], message: str) -> None:
    done = subprocess.run([sys.executable, "-m", "serl", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
