"""Commands of benchmarks: what they take for a row, keep of a page, and refuse."""

import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import ablation, costs, forecasts, gateway_ouch, operators, reaction, soak
from serl.agents.execution.data import TRAIN
from serl.agents.learning.folds import fold_seeds
from serl.agents.learning.market_config import MarketConfig
from serl.exchange.errors import ConfigError

PAGE = "# Benchmarks\n\n## forecasts\n\nPPO.\n\n| figure | value |\n|---|---|\n| gain_bps | 7 |\n"


def test_the_twap_of_the_ablation_is_not_the_rule_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table has both, before the policies."""

    def row(name: str, value: float) -> Any:
        return SimpleNamespace(name=name, estimates={each: SimpleNamespace(value=value) for each in ablation.SHOWN})

    rows = [row("TWAP", 0.0), row("patience", 1.0)]
    monkeypatch.setattr(ablation, "evaluate", lambda *_, **__: SimpleNamespace(rows=rows))
    markets: Any = {"static": None, "dynamic": None}
    base: Any = None
    assert ablation.scores(base, "TWAP", 0, markets, 8) == [[0.0] * 4, [0.0] * 4]


def test_an_ablation_that_is_stopped_has_shown_what_it_knows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def scores(base: object, rule: str, *_: object) -> Any:
        if rule == "fixed":
            raise KeyboardInterrupt
        return [[0.25] * 4]

    monkeypatch.setattr(ablation, "scores", scores)
    monkeypatch.setattr(ablation, "scenarios", lambda base: {"static": None})
    monkeypatch.setattr(sys, "argv", ["ablation", "--market", "a.day", "--seeds", "2"])
    with pytest.raises(SystemExit) as ended:
        ablation.main()
    shown = capsys.readouterr().out.splitlines()
    assert ended.value.code == 130 and shown[2] == "| TWAP | static | 1 | 0.25 | 0.25 | 0.25 | 0.25 |"
    assert [line.split(" ")[1] for line in shown[2:]] == ["TWAP", "static", "dynamic"]


@pytest.mark.parametrize("benchmark", [costs, reaction])
@pytest.mark.parametrize("hours", ["13:00", "5-6", "16:00-13:00"])
def test_hours_that_are_none_are_refused(
    benchmark: Any, hours: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", "no.zip", "--hours", hours])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 1 and capsys.readouterr().err.startswith("error: --hours: expected")


def test_fresh_days_of_operators_are_none_that_a_run_scores_or_measures() -> None:
    inner = operators.settings("search", 0, 60, 48).inner

    def days(market: MarketConfig, part: str) -> set[int]:
        placed = market.model_copy(update={"part": part})
        return {market.first_day + number for number in fold_seeds(part, placed)}

    seen = {
        day for seed in range(inner.folds) for day in days(inner.of_seed(seed).market, inner.of_seed(seed).scoring_part)
    }
    seen |= days(inner.market, TRAIN)  # signals
    fresh = operators.fresh(inner, 192)
    assert fresh.market.part == TRAIN and not days(fresh.market, TRAIN) & seen


def test_a_benchmark_without_its_data_leaves_its_section(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(forecasts, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "forecasts", "--write", str(page)])
    command.main()
    assert page.read_text() == PAGE
    monkeypatch.setattr(forecasts, "run", lambda: {"gain_bps": 8})
    command.main()
    assert "| gain_bps | 8 |" in page.read_text() and "| gain_bps | 7 |" not in page.read_text()


def test_a_soak_refuses_a_result_that_it_could_not_write(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a file with a suffix"):
        soak.new_folder(tmp_path / "result")  # where its folder is
    assert soak.new_folder(tmp_path / "result.json") == tmp_path / "result"
    with pytest.raises(ConfigError, match="choose another --json"):
        soak.new_folder(tmp_path / "result.json")


def test_a_soak_that_is_stopped_while_the_exchange_starts_ends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    killed: list[bool] = []

    class Starting(SimpleNamespace):
        pid, endpoint, config = 1, "", tmp_path / "exchange.yaml"

        def __init__(self, folder: Path) -> None:
            pass

        def start(self) -> None:
            raise KeyboardInterrupt

        def kill(self) -> None:
            killed.append(True)

    monkeypatch.setattr(soak, "ServedExchange", Starting)
    monkeypatch.setattr(soak, "compile_traders", lambda: None)
    monkeypatch.setattr(soak.signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        soak.main(["--json", str(tmp_path / "soak.json")])
    assert ended.value.code == 130 and killed == [True]


def test_a_soak_ends_before_its_first_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = soak.new_folder(tmp_path / "soak.json")
    options: Any = Namespace(json=tmp_path / "soak.json", segment_rows=64, growth=True)
    one: Any = SimpleNamespace(
        sampler=SimpleNamespace(samples=[]), clients=SimpleNamespace(counts=dict, notes=[]), broken=[], figures={}, events=[],
        journal_mb=300.0, exchange=SimpleNamespace(starts=1),
    )  # fmt: skip
    assert soak._finish(one, options, folder, "interrupted", soak.Console(width=150)) == 0
    assert '"hours": 0.0' in options.json.read_text() and "interrupted" in capsys.readouterr().out


def test_a_soak_says_how_many_sessions_were_back() -> None:
    """Under load some are away by themselves, so it does not wait for all."""
    one = soak.Soak.__new__(soak.Soak)
    one._options, one.seconds = Namespace(sessions=200), 0.0
    one.clients = SimpleNamespace(live=lambda: 170, control=[0.0] * 3)  # type: ignore[assignment] # pyrefly: ignore[bad-assignment]
    assert one._pause(lambda _: None, 10.0) == "0 s; 85% of the sessions were back after 0.0 s"


def test_what_the_ouch_gateway_adds_is_less_the_native_client(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_s = {"ouch": 0.005, "native": 0.002}
    monkeypatch.setattr(gateway_ouch, "COUNT", 512)
    monkeypatch.setattr(gateway_ouch, "ROUNDS", 1)
    monkeypatch.setattr(gateway_ouch, "_over_ouch", lambda client, first_ref: "ouch")
    monkeypatch.setattr(gateway_ouch, "_directly", lambda endpoint, turn: "native")
    monkeypatch.setattr(gateway_ouch, "_latencies", lambda way: [taken_s[way]] * 10)
    found = gateway_ouch.run()
    assert found["ouch_added_p50_us"] == pytest.approx(3000) and found["ouch_added_p99_us"] == pytest.approx(3000)
