"""The page of minds in the dashboard: its data, while they are written, and that it escapes texts of models."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.minds.browse.live_run import LATEST, LiveRun
from serl.minds.browse.routes import routes
from serl.minds.files import DECISIONS, STATISTICS
from tests.clients.dashboard.server_fixture import SIZES_AND_THEMES, OpenPage, dashboard
from tests.minds.hostile_run import record
from tests.server_fixture import free_endpoint

SHOWN = "</td><script>alert('1')</script><img src=x onerror=alert(2)> &"
"""Of the hostile text, what the page shows: invisible characters are blanks."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("run"))


def test_the_overview_is_of_the_whole_run(folder: Path) -> None:
    found = LiveRun(folder).overview()
    assert (found["problem"], found["model"], found["ended"], found["decisions"]) == ("", "fake", True, 12)
    assert found["renamed"] == {"S1": "AMZN"}
    personas = {one["persona"]: one for one in found["personas"]}
    assert [one["refused"] for one in personas.values()] == [0, 0, 4]
    assert personas["holder"]["return"] == pytest.approx(101_010 / 101_000 - 1), "10 shares at 100, then at 101"
    minds = {one["mind"]: one for one in found["minds"]}
    assert minds["prose-0"]["refused"] == {"prose": 4}
    assert (minds["buyer-0"]["wealth"], minds["buyer-0"]["lots"]) == (1000, {"AMZN": 4})
    actions = {(one["mind"], one["action"]) for one in found["latest"]}
    assert {("holder-0", "sell 10 AMZN at 101"), ("buyer-0", "buy 4 AMZN at the market")} <= actions
    assert any(one["kind"] == "lesson" and SHOWN in one["why"] for one in found["latest"])
    assert found["latest"][0]["kind"] == "end", "newest first"
    (first, nothing), *_, (last, gained) = found["curves"]["holder"]
    assert nothing == 0 and gained == personas["holder"]["return"] and last > first
    text = json.dumps(found, ensure_ascii=False)
    assert "\u202e" not in text and "\0" not in text


def test_a_mind_is_shown_with_what_it_saw(folder: Path) -> None:
    run = LiveRun(folder)
    found = run.mind("buyer-0")
    assert found is not None and found["decisions"] == 4
    seen = [text for row in found["rows"] for text in (*row["events"], *row["outcomes"], *row["memories"])]
    assert any(text.startswith("news: AMZN falls") for text in seen)
    assert any("Filled 4 of your order" in text for text in seen)
    assert run.mind("nobody") is None


def test_the_page_follows_a_run_as_it_is_written(folder: Path, tmp_path: Path) -> None:
    run, path = LiveRun(tmp_path), tmp_path / DECISIONS
    assert "no decisions yet" in run.overview()["problem"]
    lines = (folder / DECISIONS).read_text().splitlines(keepends=True)
    tags = {run.tag()}
    for count in range(1, len(lines) + 1):
        path.write_text("".join(lines[:count]) + lines[count % len(lines)][:20])
        found = run.overview()
        expected = sum('"row": "decision"' in line for line in lines[:count])
        assert (found["problem"], found["decisions"], found["ended"]) == ("", expected, False)
        tags.add(run.tag())
    assert len(tags) == len(lines) + 1
    (tmp_path / STATISTICS).write_text("{}")
    assert run.tag() not in tags and run.overview()["ended"]
    path.write_text(lines[0])
    assert run.overview()["decisions"] == 0 and run.overview()["minds"] == [], "another run"
    path.write_text(lines[0] + "rubbish\n" + '{"row": "end"}\n' + "".join(lines[1:3]))
    found = run.overview()
    assert "expected a row of this version of serl, got 'rubbish'" in found["problem"] or "'{" in found["problem"]
    assert found["minds"], "the other rows are shown"


def test_a_long_run_takes_no_more_memory(folder: Path, tmp_path: Path) -> None:
    lines = (folder / DECISIONS).read_text().splitlines(keepends=True)
    row = json.loads(next(line for line in lines if '"row": "decision"' in line))
    text = "".join(json.dumps(row | {"time_ns": row["time_ns"] + number * 10**9}) + "\n" for number in range(5000))
    (tmp_path / DECISIONS).write_text(lines[0] + text)
    run = LiveRun(tmp_path)
    found = run.overview()
    assert found["decisions"] == 5000 and len(found["latest"]) == LATEST
    (curve,) = found["curves"].values()
    assert 400 < len(curve) <= 1000 and curve[-1][0] - curve[0][0] == 4999, "thinned, with its ends"
    assert [time for time, _ in curve] == sorted(time for time, _ in curve)
    mind = run.mind(row["mind"])
    assert mind is not None and len(mind["rows"]) == 50


def test_the_dashboard_serves_the_page(folder: Path) -> None:
    with dashboard(free_endpoint(), "--minds", str(folder)) as shown:
        assert shown.get("minds")[0] == shown.get("minds/static/minds.js")[0] == 200
        status, body = shown.get("minds/overview")
        assert status == 200 and json.loads(body)["decisions"] == 12
        assert shown.get("minds/overview", **{"if-none-match": f'"{_tag(folder)}"'})[0] == 304
        assert json.loads(shown.get("minds/mind?name=buyer-0")[1])["mind"] == "buyer-0"
        assert shown.get("minds/mind?name=%00")[0] == shown.get("minds/mind")[0] == 404
        assert shown.get("researcher")[0] == 404


def test_what_is_written_after_the_data_is_asked_for_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / DECISIONS).write_text((folder / DECISIONS).read_text())
    route: Any = next(each for each in routes(tmp_path) if getattr(each, "path", "") == "/minds/overview")
    overview = route.endpoint
    read = LiveRun.overview

    def read_and_end(run: LiveRun) -> dict[str, Any]:
        found = read(run)
        if not found["ended"]:
            (tmp_path / STATISTICS).write_text("{}")
        return found

    monkeypatch.setattr(LiveRun, "overview", read_and_end)
    first = overview(SimpleNamespace(headers={}))
    assert not json.loads(first.body)["ended"]
    second = overview(SimpleNamespace(headers={"if-none-match": first.headers["etag"]}))
    assert second.status_code == 200 and json.loads(second.body)["ended"]
    assert overview(SimpleNamespace(headers={"if-none-match": second.headers["etag"]})).status_code == 304


def _tag(folder: Path) -> str:
    run = LiveRun(folder)
    run.overview()
    return run.tag()


@SIZES_AND_THEMES
def test_texts_of_models_are_texts(
    opened: Any, folder: Path, screenshots: Path, width: int, height: int, scheme: str
) -> None:
    with (
        dashboard(free_endpoint(), "--minds", str(folder)) as shown,
        OpenPage(opened, shown.address + "minds", width, height, scheme) as looked,
    ):
        page = looked.page
        page.wait_for_selector("#detail .decision")
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        assert SHOWN in page.inner_text("#latest")
        page.click("[data-mind='buyer-0']")
        page.wait_for_selector("#detail-title:text('buyer-0')")
        assert "buy 4 AMZN at the market" in page.inner_text("#detail")
        page.locator("#detail summary").last.click()
        assert page.locator("#detail details[open] li").count() > 0
        page.screenshot(path=str(screenshots / f"minds-{width}-{scheme}.png"), full_page=True)
        assert page.evaluate("window.hurt") is None and page.locator("img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#wealth canvas").count() == 1
        assert looked.console == []


def test_a_run_of_many_minds_is_read_at_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wealth of a persona is not summed over all of its minds for each row."""
    lines = (folder / DECISIONS).read_text().splitlines(keepends=True)
    row = json.loads(next(line for line in lines if '"row": "decision"' in line)) | {"persona": "holder"}
    rows = [
        row | {"mind": f"holder-{n % 50}", "wealth": 100 + n, "time_ns": row["time_ns"] + n // 50} for n in range(150)
    ]
    (tmp_path / DECISIONS).write_text(lines[0] + "".join(json.dumps(each) + "\n" for each in rows))
    sums = 0
    summed = LiveRun._wealth

    def counted(run: LiveRun, persona: str) -> tuple[float, float]:
        nonlocal sums
        sums += 1
        return summed(run, persona)

    monkeypatch.setattr(LiveRun, "_wealth", counted)
    found = LiveRun(tmp_path).overview()
    first, last = sum(range(100, 150)), sum(range(200, 250))
    assert found["curves"]["holder"][-1][1] == pytest.approx(last / first - 1)
    assert found["personas"][0]["return"] == last / first - 1
    assert sums == len(found["personas"])
