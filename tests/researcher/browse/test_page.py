"""The researcher's page: its data, and that it escapes texts of models."""

import dataclasses
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl import tables
from serl.researcher.browse import runs
from serl.researcher.candidates import Candidate, Module, Result
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer.database import Database
from serl.researcher.outer.errors import RunError
from serl.researcher.outer.records import Draft, Instruction, Lessons, Prompt, Proposal, Verdict
from tests.clients.dashboard.server_fixture import SIZES_AND_THEMES, OpenPage, dashboard
from tests.researcher.outer.small import score_of
from tests.server_fixture import free_endpoint

HOSTILE = "<img src=x onerror='window.hurt = true'><script>window.hurt = true</script>"
FIRST = f"def reward(x):\n    # {HOSTILE}\n    return 1\n"
DOT_PIXELS = 20
DRAWN_JS = """([chart, name]) => {
    const pixels = canvas => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const one = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
    one.getContext("2d").fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
    one.getContext("2d").fillRect(0, 0, 1, 1);
    const [hue, data] = [pixels(one), pixels(document.querySelector(`#${chart} canvas`))];
    let count = 0;
    for (let at = 0; at < data.length; at += 4) count += [0, 1, 2].every(index => Math.abs(data[at + index] - hue[index]) < 3) && data[at + 3] > 250;
    return count;
}"""
"""Pixels of a chart that have a colour of the page."""
SECOND = f"def reward(x):\n    # {HOSTILE}\n    return 2\n"


def draft(text: str | None, *verdicts: Verdict) -> Draft:
    prompt = Prompt(Kind.REWARD, ({"role": "user", "content": HOSTILE},), instruction=1)
    return Draft(Kind.REWARD, "code", "model", "tiny", prompt, text, verdicts)


def proposal(text: str, *parents: tuple[int, int]) -> Proposal:
    return Proposal(Candidate({Kind.REWARD: Module("code", text)}), (draft(text),), parents)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A run of two iterations; in the second a candidate descends from the first, and one is rejected."""
    database = Database(tmp_path / "run.db")
    database.set_fact("config", {"name": HOSTILE, "iterations": 5, "proposer": "dek", "model": "tiny"})
    database.add_instructions(
        0, [Instruction(Kind.REWARD, HOSTILE, "initial"), Instruction(Kind.REWARD, "Other", "initial")]
    )
    database.add_proposal(1, 0, proposal(FIRST))
    database.add_results(1, "tiny", {0: Result("done", "", dataclasses.replace(score_of(2.0), twap_bps=0.5), None, {})})
    database.set_performance(1, 5.0)
    facts = {"log_p": -11.5, "entropy": 4.5, "loss": 0.9, "kl": 0.0, "gradient_norm": 4.0}
    database.finish(1, Lessons(facts=facts), model="tiny", pa_bps=2.0, ema_bps=2.0, change_bps=None, seconds=9.0)
    database.add_proposal(2, 0, proposal(SECOND, (1, 0)))
    bad = Verdict(Kind.REWARD, "tiny", 1, "static check", "forbidden", HOSTILE)
    database.add_proposal(2, 1, Proposal(None, (draft(None, bad, bad),)))
    database.add_results(
        2, "tiny", {0: Result("done", "", dataclasses.replace(score_of(-1.0), twap_bps=0.3), None, {})}
    )
    database.set_performance(2, 5.0)
    facts = {"log_p": -9.5, "entropy": 4.0, "loss": 0.7, "kl": 0.1, "gradient_norm": 3.0}
    database.finish(2, Lessons(facts=facts), model="tiny+1", pa_bps=-1.0, ema_bps=1.7, change_bps=-0.3, seconds=9.0)
    database.close()
    yield tmp_path


def test_the_overview_is_of_the_whole_run(folder: Path) -> None:
    found = runs.overview(folder)
    assert [(one["iteration"], one["slot"], one["stage"], one["parents"]) for one in found["candidates"]] == [
        (1, 0, "done", []), (2, 0, "done", [[1, 0]]), (2, 1, "rejected", []),
    ]  # fmt: skip
    assert [one["twap_bps"] for one in found["iterations"]] == [0.5, 0.3]
    last = found["iterations"][-1]
    assert (last["low_bps"], last["pa_bps"], last["high_bps"], last["best_so_far_bps"]) == (-2.0, -1.0, 0.0, 2.0)
    assert last["tuning"]["log_p"] == -9.5
    scores = {one["id"]: (one["uses"], one["score_bps"]) for one in found["instructions"]}
    assert scores[1][0] == 3 and scores[1][1] == pytest.approx((2.0 - 1.0 - 6.0) / 3)
    assert scores[2] == (0, None)
    (verdict,) = [one for one in found["verdicts"] if one["stage"] == "static check"]
    assert (verdict["reason"], verdict["count"], verdict["example"]) == ("forbidden", 2, HOSTILE)
    json.dumps(found)


def test_a_run_as_tables(folder: Path) -> None:
    found = tables.candidates(folder)
    assert found["stage"].tolist() == ["done", "done", "rejected"] and found["parents"].tolist() == ["", "1/0", ""]
    assert found["pa_bps"][:2].tolist() == [2.0, -1.0] and np.isnan(found["pa_bps"][2])
    assert found["kinds"].tolist() == ["reward", "reward", ""] and found["twap_bps"][:2].tolist() == [0.5, 0.3]
    rounds = tables.iterations(folder)
    assert rounds["best_so_far_bps"].tolist() == [2.0, 2.0] and rounds["model"].tolist() == ["tiny", "tiny+1"]
    assert np.isnan(rounds["difference_bps"]).all(), "a run of an earlier version"
    with pytest.raises(RunError, match="expected a run"):
        tables.iterations(folder / "missing")


def test_a_candidate_comes_with_its_parents_module(folder: Path) -> None:
    (module,) = runs.candidate(folder, 2, 0)["modules"]
    assert (module["text"], module["parent"], module["parent_text"]) == (SECOND, (1, 0), FIRST)
    (module,) = runs.candidate(folder, 1, 0)["modules"]
    assert (module["parent"], module["parent_text"]) == (None, None)
    rejected = runs.candidate(folder, 2, 1)
    assert rejected["modules"] == []
    assert [one["reason"] for one in rejected["verdicts"]] == ["forbidden", "forbidden"]
    with pytest.raises(RunError, match="iteration 9"):
        runs.candidate(folder, 9, 0)
    with pytest.raises(RunError, match="cannot be read"):
        runs.candidate(folder, 10**30, 0)


def test_a_folder_without_a_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="serl researcher start"):
        runs.overview(tmp_path)
    assert runs.state(tmp_path) == "none"
    (tmp_path / "run.db").write_text("no database at all, but long enough to be looked at" * 99)
    with pytest.raises(RunError, match="cannot be read"):
        runs.overview(tmp_path)


def test_a_run_with_former_names_of_stages_is_read(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "run.db")) as connection, connection:
        connection.execute("UPDATE verdicts SET stage = 'read' WHERE stage = 'static check'")
        connection.execute("UPDATE candidates SET stage = 'trial' WHERE stage = 'rejected'")
    before = runs.state(folder)
    found = runs.overview(folder)
    assert [one["stage"] for one in found["candidates"]] == ["done", "done", "dry run"]
    assert {one["stage"] for one in found["verdicts"]} == {"static check"}
    assert {one["stage"] for one in runs.candidate(folder, 2, 1)["verdicts"]} == {"static check"}
    assert runs.state(folder) == before, "the page only reads"
    database = Database(folder / "run.db")
    assert {row["stage"] for row in database.tally()} == {"static check", "done"}
    assert [row[0] for row in database.rows("SELECT DISTINCT stage FROM candidates ORDER BY 1")] == ["done", "dry run"]
    database.close()


def test_reading_does_not_write(folder: Path) -> None:
    before = runs.state(folder), sorted(path.name for path in folder.iterdir())
    runs.overview(folder)
    assert before == (runs.state(folder), sorted(path.name for path in folder.iterdir()))


@SIZES_AND_THEMES
def test_texts_of_models_are_texts_and_charts_are_drawn(
    opened: Any, folder: Path, screenshots: Path, width: int, height: int, scheme: str
) -> None:
    with (
        dashboard(free_endpoint(), "--researcher", str(folder)) as shown,
        OpenPage(opened, shown.address + "researcher", width, height, scheme) as looked,
    ):
        page = looked.page
        page.wait_for_selector("#detail pre")
        page.wait_for_selector(".tuning:not([hidden])")
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        assert page.inner_text("#name") == HOSTILE
        assert HOSTILE in page.inner_text("#detail pre")
        page.locator(".node").first.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("pre .plus")
        assert page.inner_text("pre .plus").strip() == "+     return 2"
        assert page.inner_text("pre .minus").strip() == "-     return 1"
        assert HOSTILE in page.inner_text("#prompts")
        page.locator("#rejected details").first.click()
        assert HOSTILE in page.inner_text("#rejected pre")
        assert page.locator("#rejected .words").first.is_visible(), "the reason stays beside its example"
        assert page.evaluate("window.hurt") is None
        assert page.locator("img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert looked.console == []
        for chart, hues in {
            "pa": ("accent", "violet", "text"),
            "logp": ("accent", "amber"),
            "kl": ("violet", "amber"),
        }.items():
            for hue in hues:
                assert page.evaluate(DRAWN_JS, [chart, hue]) > DOT_PIXELS, f"{chart} in {hue}"
        page.screenshot(path=str(screenshots / f"researcher-{width}-{scheme}.png"), full_page=True)


def test_a_candidate_whose_request_failed_is_asked_for_again(opened: Any, folder: Path) -> None:
    with (
        dashboard(free_endpoint(), "--researcher", str(folder)) as shown,
        OpenPage(opened, shown.address + "researcher") as looked,
    ):
        page = looked.page
        page.wait_for_selector("#detail pre")
        page.route("**/researcher/candidate/**", lambda route: route.abort(), times=1)
        with page.expect_event("requestfailed"):
            page.locator(".node").last.click()
        with page.expect_response("**/researcher/candidate/**"):
            page.locator(".node").last.click()
