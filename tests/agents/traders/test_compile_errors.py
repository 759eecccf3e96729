"""A trader's function that numba cannot compile is an error of one line with its place."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.agents.backtest.load import load_strategy
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.registry import Kind
from serl.cli import serl as command

QUICK = """
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, post, sleep

class QuickProfile(Profile):
    interval_s: float = 0.001

def helper(price):
    return price

@trader("quick", QuickProfile)
def quick(agent, profile, market, requests):
    if market.bid_ticks > 0:
        LINE
    sleep(requests, market, profile.interval_s * 1e9)
"""
PLACE = 14


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sleep(requests, market, profile.nope)", "expected a field of the profile (interval_s), got profile.nope"),
        ("market.spread = 1", "expected a field of the market (time_ns, open_ns, "),
        ('post(requests, BUY, "a", 10)', "got: no post(record, int 0, str a, int 10); "),
        ("post(requests, BUY, 10)", "got: missing a required argument: 'qty_lots'; "),
        ('x = profile.interval_s + "a"', "got: no add(float64, str a); "),
        ("helper(3)", "got: Untyped global name 'helper': Cannot determine Numba type of <class 'function'>; "),
        ("sleep(requests, market, math.sqrt(2))", "got: NameError: name 'math' is not defined; "),
        ("import json", "got: Use of unsupported opcode (IMPORT_NAME) found; "),
    ],
)
def test_the_error_names_file_line_and_cause(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "quick.py").write_text(QUICK.replace("LINE", line))
    kind = load_strategy(tmp_path / "quick.py").found
    assert isinstance(kind, Kind)
    with pytest.raises(PopulationError) as raised:
        _ = kind.compiled
    text = str(raised.value)
    assert text.startswith(f"{tmp_path}/quick.py:{PLACE}: expected ") and message in text and "\n" not in text


def test_a_function_with_other_parameters_is_named_by_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "quick.py").write_text(QUICK.replace("LINE", "pass").replace(", market, requests):", "):"))
    kind = load_strategy(tmp_path / "quick.py").found
    assert isinstance(kind, Kind)
    with pytest.raises(PopulationError, match=rf"quick\.py:{PLACE - 3}: .*Signature mismatch: 4 argument"):
        _ = kind.compiled


def test_a_backtest_shows_it(tmp_path: Path) -> None:
    (tmp_path / "quick.py").write_text(QUICK.replace("LINE", "profile.nope"))
    options = ["--population", "small", "--window", "09:30-09:31", "-o", str(tmp_path / "report.html")]
    done = CliRunner().invoke(command, ["backtest", str(tmp_path / "quick.py"), *options])
    assert isinstance(done.exception, PopulationError), done.output
