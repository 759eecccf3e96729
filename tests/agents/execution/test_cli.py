"""`serl execute`: what it refuses before it trades, and what an interruption leaves."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.agents.execution.cli import execute, volume_curve
from serl.agents.execution.executor import Execution, Executor
from serl.agents.pages.errors import ReportFileError
from serl.clients.blocking import connect
from serl.exchange.errors import ConfigError
from serl.exchange.wire import Kind
from tests.agents.signals import sample
from tests.clients.dashboard.server_fixture import wait_until
from tests.server_fixture import free_endpoint, launch, start_exchange

ORDER = ["twap", "--symbol", "DEMO", "--side", "sell", "--qty", "90", "--window", "23:00-23:30"]


def test_an_interruption_leaves_no_order_and_tells_what_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rest_until_interrupted(executor: Executor) -> Execution:
        assert executor.market.client.sell("DEMO", 5, 200).open_lots == 5
        executor.market.own_fills.append((1, 100, 30, 1))
        raise KeyboardInterrupt

    monkeypatch.setattr(Executor, "run", rest_until_interrupted)
    with start_exchange(symbols="DEMO", clock="scaled:1") as served, connect(served.endpoint, "other") as other:
        done = CliRunner().invoke(execute, [*ORDER, "--connect", served.endpoint, "--report", str(tmp_path)])
        assert "stopped early: 30 of 90 lots are filled so far" in done.output, done.exception
        assert done.exit_code != 0
        wait_until(lambda: other.ask(Kind.STATISTICS)[5]["orders_open"] == 0, "the order is cancelled")


def test_a_report_that_cannot_be_written_is_refused_before_the_login(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportFileError, match="expected a writable folder, got File exists"):
        execute.main([*ORDER, "--connect", free_endpoint(), "--report", str(tmp_path / "file")], standalone_mode=False)


def test_the_rules_of_the_exchange(tmp_path: Path) -> None:
    """Where the market takes no orders, each one is due again at the next decision, on any clock."""
    config = tmp_path / "exchange.yaml"
    config.write_text("""symbols: [{name: DEMO, lot_multiple: 10, day: [{at: "00:00", phase: closed}]}]""")
    served = launch("--config", str(config), "--clock", "scaled:200", "--clock-start", "22:35")
    order = [*ORDER[:-1], "23:00-23:01", "--connect", served.endpoint]
    order += ["--report", str(tmp_path)]
    try:
        with pytest.raises(ConfigError, match=r"expected a multiple of lot_multiple \(10\), got 95; round it"):
            execute.main([*order, "--qty", "95"], standalone_mode=False)
        execute.main(order, standalone_mode=False)
    finally:
        served.stop()
    summary = json.loads((tmp_path / "DEMO-sell-twap.json").read_text())["summary"]
    assert (summary["filled_lots"], summary["children"]) == (0, 3)
    assert "3 of 3 child orders were rejected: WRONG_PHASE" in summary["notes"]


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1"])
def test_intervals_are_seconds_of_a_day(seconds: str) -> None:
    with pytest.raises(ConfigError, match=f"--interval: expected more than 0 and up to 86400 s, got {seconds}"):
        execute.main([*ORDER, "--interval", seconds], standalone_mode=False)
    with pytest.raises(ConfigError, match=f"--width: expected more than 0 and up to 86400 s, got {seconds}"):
        volume_curve.main(["x.day", "-o", "curve.json", "--width", seconds], standalone_mode=False)


@pytest.mark.long
def test_a_forecaster_that_the_policy_does_not_observe_is_refused(tmp_path: Path) -> None:
    sample.forecaster().write(tmp_path / "f")
    with pytest.raises(ConfigError, match="--forecaster: expected none, twap observes no forecasts, got f sha256"):
        execute.main([*ORDER, "--forecaster", str(tmp_path / "f")], standalone_mode=False)
