"""Reports, the command line, and the proof in a tiny size."""

import dataclasses
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from benchmarks import proof_table
from serl.agents.execution.environment.interface import Interface
from serl.agents.pages.errors import ReportFileError
from serl.exchange.errors import ConfigError
from serl.researcher.browse import runs
from serl.researcher.candidates import Candidate, Result
from serl.researcher.inner.settings import SHARED
from serl.researcher.outer import report, run
from serl.researcher.outer.ablations import read_ablations
from serl.researcher.outer.config import load_config
from serl.researcher.outer.errors import RunError
from tests.researcher.outer.small import Arithmetic, config_of, pa_of, score_of

POLICY = "policy.safetensors"
BARS = {"scored_in": "bars", "market": {"kind": "static", "data": ["own.parquet"]}}


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        assert not {name for name, _ in attributes} & {"src", "href"} or tag in ("use", "a"), "all is in the file"
        self.seen.add(tag)
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def small_run(folder: Path) -> None:
    config = config_of(iterations=3, candidates=3, seed=12)
    database = run.begin(folder, config, "serl researcher start <here>", resume=False)
    run.research(config, folder, database, Arithmetic())
    database.close()


def test_a_report_is_one_page_and_its_numbers(tmp_path: Path) -> None:
    small_run(tmp_path)
    found = report.write_report(tmp_path, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert not tags.open
    assert {"svg", "table", "pre"} <= tags.seen
    assert "serl researcher start &lt;here&gt;" in text
    assert json.loads((tmp_path / "report.json").read_text()) == found
    best = max(row["pa_bps"] for row in found["iterations"])
    assert found["best"]["score"]["pa_bps"] == best == found["iterations"][-1]["best_so_far_bps"]
    assert found["candidates"] == {"done": 8, "rejected": 2}, "two of the drawn rewards pay for nothing"
    assert sum(row["count"] for row in found["verdicts"] if row["stage"] == "dry run") == 9
    assert found["versions"]["python"] and found["seed"] == 12
    assert found["data"].startswith("population liquid sha256 ") and found["data"] in text


class Racing(Arithmetic):
    """Candidates that are given again gain 10 bps by their next training, or fail in it."""

    def __init__(self, then: str) -> None:
        super().__init__()
        self._then = then

    def __call__(self, candidates: Sequence[Candidate], folder: Path) -> list[Result]:
        known = set(self.asked)
        found = super().__call__(candidates, folder)
        return [
            self._again(one) if each.key in known else self._raced(one)
            for each, one in zip(candidates, found, strict=True)
        ]

    def _raced(self, one: Result) -> Result:
        return dataclasses.replace(one, facts={"stages": 1})

    def _again(self, one: Result) -> Result:
        assert one.score is not None
        if self._then == "fails":
            return Result("training", "crashed", None, None, {})
        return dataclasses.replace(self._raced(one), score=score_of(one.score.pa_bps + 10))


@pytest.mark.parametrize("then", ["gains", "fails"])
def test_the_figures_of_an_iteration_are_those_of_one_candidate(then: str, tmp_path: Path) -> None:
    """Candidates of earlier iterations train further: their interval was shown around the PA that they had before."""
    config = config_of(iterations=2, candidates=3, seed=1)
    database = run.begin(tmp_path, config, "test", resume=False)
    run.research(config, tmp_path, database, Racing(then))
    database.close()
    rows = report.write_report(tmp_path, tmp_path / "report.html")["iterations"]
    assert len(rows) == 2
    for row in rows:
        assert row["pa_bps"] is row["low_bps"] is None or row["low_bps"] < row["pa_bps"] < row["high_bps"]
    assert (rows[0]["pa_bps"] is None) == (then == "fails")


def test_what_cannot_be_written_is_refused_before_the_test_part_is_opened(tmp_path: Path) -> None:
    small_run(tmp_path)
    with pytest.raises(ReportFileError, match="got that of the JSON"):
        report.write_report(tmp_path, tmp_path / "report.json", final=True)


def test_settings_without_a_limit_can_be_reported(tmp_path: Path) -> None:
    config = config_of(iterations=1, hours_max=math.inf)
    database = run.begin(tmp_path, config, "test", resume=False)
    run.research(config, tmp_path, database, Arithmetic())
    database.close()
    assert report.write_report(tmp_path, tmp_path / "report.html")["config"]["hours_max"] == "Infinity"
    assert run.open_run(tmp_path)[1] == config


def test_the_test_part_is_touched_once(tmp_path: Path) -> None:
    small_run(tmp_path)
    with pytest.raises(RunError, match="no candidate has a trained policy"):
        report.write_report(tmp_path, tmp_path / "report.html", final=True)
    database, _ = run.open_run(tmp_path)
    best = report.best(database)
    assert best is not None
    place = {name: best[name] for name in ("iteration", "slot")}
    database.set_fact("test", place | {"score": {"pa_bps": -77.0}})
    database.close()
    with pytest.raises(RunError, match="scored already"):
        report.write_report(tmp_path, tmp_path / "report.html", final=True)
    report.write_report(tmp_path, tmp_path / "report.html")
    assert f"test (iteration {best['iteration']}, slot {best['slot']})" in (tmp_path / "report.html").read_text()


def test_a_run_that_was_moved_finds_its_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(candidates: Sequence[Candidate], folder: Path) -> list[Result]:
        return [Result("done", "", score_of(pa_of(one)), str(folder / one.key / POLICY), {}) for one in candidates]

    monkeypatch.chdir(tmp_path)
    before, config = Path("runs") / "here", config_of(iterations=1)
    database = run.begin(before, config, "test", resume=False)
    run.research(config, before, database, evaluate)
    best = report.best(database)
    database.close()
    assert best is not None and best["policy"] == f"runs/here/candidates/{best['key']}/{POLICY}"
    after = tmp_path / "elsewhere"
    before.rename(after)
    monkeypatch.chdir("/")
    assert report.winner(after) == after / "candidates" / best["key"] / POLICY
    assert runs.candidate(after, 1, best["slot"])["policy"] == str(report.winner(after))
    database, _ = run.open_run(after)
    known = database.result_of(best["key"])
    assert known is not None and known.policy == str(report.winner(after))
    database.close()


def test_a_run_whose_test_part_was_seen_does_not_go_on(tmp_path: Path) -> None:
    small_run(tmp_path)
    database, config = run.open_run(tmp_path)
    database.set_fact("test", {"iteration": 1, "slot": 0, "score": {"pa_bps": 1.0}})
    database.close()
    with pytest.raises(RunError, match="start another run with --output"):
        run.begin(tmp_path, config.model_copy(update={"iterations": 4}), "test", resume=True)
    database, kept = run.open_run(tmp_path)
    assert kept == config, "nothing of the run was changed"
    database.close()
    database = run.begin(tmp_path, config, "test", resume=True)  # it is at its end, nothing is searched
    assert run.research(config, tmp_path, database, Arithmetic()) == "all 3 iterations are done"
    database.close()


def test_the_proof_is_shown_in_the_report(tmp_path: Path) -> None:
    small_run(tmp_path / "run")
    compared = tmp_path / "proof"
    compared.mkdir()
    with pytest.raises(RunError, match=r"benchmarks\.proof --output"):
        report.write_report(tmp_path / "run", tmp_path / "report.html", ablations=compared)
    pa_bps = {("full", "thin"): [1.0, 1.5, 2.0], ("random", "thin"): [0.5, 0.4, 0.9]}
    found = proof_table.summary(pa_bps, ["full", "random"], ["thin"])
    (compared / "proof.json").write_text(json.dumps(found))
    shown = report.write_report(tmp_path / "run", tmp_path / "report.html", ablations=compared)
    assert json.loads((tmp_path / "report.json").read_text())["ablations"] == json.loads(json.dumps(shown["ablations"]))
    text = (tmp_path / "report.html").read_text()
    low, high = found["rows"][1]["difference"][1:]
    assert "<h2>Ablations</h2>" in text and f"+0.90 [{low:+.2f}, {high:+.2f}]" in text
    former = {"way": "eureka", "seeds": 3, "scored": 3, "validation": [0, 0, 0], "test": [2, 1, 3], "hours": 1.0}
    (compared / "proof.json").write_text(json.dumps([former]))
    assert [(row.variant, row.test) for row in read_ablations(compared)] == [("eureka", (2, 1, 3))]
    (compared / "proof.json").write_text('[{"variant": "random"}]')
    with pytest.raises(RunError, match="Field required"):
        report.write_report(tmp_path / "run", tmp_path / "report.html", ablations=compared)
    assert "Ablations" not in page_of(tmp_path)


def page_of(folder: Path) -> str:
    """The page of the run without a comparison."""
    report.write_report(folder / "run", folder / "alone.html")
    return (folder / "alone.html").read_text()


@pytest.mark.parametrize(("changes", "message"), [
    ({"low_level": {}, "endpoint": {"base_url": "http://x/v1", "model": "m"}}, "needs the weights"),
    ({"kinds": ["communicate"]}, "scenario: multi"),
    ({"kinds": [], "scenario": "multi", "inner": BARS}, "multi cannot be scored in process"),
    ({"kinds": ["reward", "reward"]}, "expected each once"),
    ({"form": "code"}, "random makes specifications"),
    ({"inner": {"market": {"kind": "static", "levels": 3}}}, "market.levels is 3, dynamic.levels is 5"),
    ({"inner": {"dynamic": {"kind": "dynamic", "offset_bps": 2}}}, "dynamic.offset_bps is 2"),
    ({"endpoints": [{"base_url": "http://x/v1", "model": "tiny"}]}, "models with different names, got tiny, tiny"),
    ({"endpoint": {"base_url": "http://x/v1", "model": "m+a"}, "endpoints": [{"base_url": "http://x/v1", "model": "m+b"}]}, r"models with different names, got m\+a, m\+b"),
    ({"proposer": "search", "search": {"operators": ["fresh", "mutate"]}}, "expected uniform among them"),
    ({"proposer": "dek", "search": {"operators": ["rewrite"]}}, "expected fresh or uniform among them"),
    ({"inner": {"first_scored_day": 34}}, "first_scored_day: expected 0, or at least 35, got 34"),
    ({"iterationz": 1}, "iterationz"),
    ({"penalty_bps": math.inf}, "penalty_bps: expected a finite number, got inf"),
    ({"endpoint": {"model": "m", "timeout_s": math.inf}}, "timeout_s: expected a finite number, got inf"),
    ({"endpoint": {"model": "m", "timeout_s": 1e10}}, "timeout_s: expected a number less than or equal to"),
    ({"inner": {"market": {"kind": "static", "interval_s": 1e300}}}, "interval_s: expected a number less than or equal to 172800"),
])  # fmt: skip
def test_bad_settings_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_of(**changes)


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    """The first of the two sections had no effect, without a word."""
    (tmp_path / "twice.yaml").write_text("inner: {orders: 2000}\nproposer: search\ninner: {folds: 0}")
    with pytest.raises(ConfigError, match="'inner' twice in one map"):
        load_config(tmp_path / "twice.yaml")


def test_a_budget_without_the_dynamic_market_takes_any_layout() -> None:
    config = config_of(inner={"market": {"kind": "static", "levels": 3}}, budget={"dynamic_steps": 0})
    assert config.inner.market.levels == 3


def test_single_settings_of_tuning_take_no_more_memory() -> None:
    config = config_of(low_level={"tuning": {"methods": ["preference"]}})
    assert config.low_level and config.low_level.tuning.microbatch == 2


def test_what_two_markets_must_share_is_what_training_compares() -> None:
    """Every difference of settings that training would refuse is told before: those of the interface, but for its units."""
    fields = {field.name for field in dataclasses.fields(Interface)}
    assert fields - {"names", "scales", "low", "high", "forecaster", "horizons_s"} == set(SHARED) - {
        "left_out"
    }  # names are of levels and what is left out; the researcher has no forecasts


def test_endpoints_of_the_command_line() -> None:
    base = load_config(Path("default"))
    there = run.with_endpoint(base, "http://127.0.0.1:11434/v1", "qwen")
    assert there.endpoint is not None and there.endpoint.model == "qwen"
    assert there.active_low_level is None
    assert [text.partition(":")[0] for text in run.notices(there)] == ["low level off", "no data"]
    assert [text.partition(":")[0] for text in run.notices(base)] == ["no data"]
    assert run.with_endpoint(base, None, "coder").model == "coder"
    for url, message in (("nowhere", "http://"), ("http://127.0.0.1/v1", "--model")):
        with pytest.raises(ConfigError, match=message):
            run.with_endpoint(base, url, None)


@pytest.mark.parametrize(("arguments", "message"), [
    (["status", "nowhere"], "contains no run"),
    (["report", "nowhere"], "contains no run"),
    (["start", "--config", "missing.yaml"], "expected a YAML file"),
    (["start", "--url", "nowhere", "--model", "x"], "http://"),
])  # fmt: skip
@pytest.mark.long
def test_bad_options_are_one_line_errors(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "serl", "researcher", *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_status_says_where_a_run_stands(tmp_path: Path) -> None:
    small_run(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "serl", "researcher", "status", str(tmp_path)], capture_output=True, text=True
    )
    assert "3 of 3 iterations; all 3 iterations are done" in done.stdout
    assert "candidates: 8 done, 2 rejected" in done.stdout
    assert "best: PA" in done.stdout
