"""The report of a run: its figures, and text of models that is hostile."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.cli import serl
from serl.minds.files import DECISIONS, STATISTICS, DecisionFile
from tests.minds.hostile_run import record

ALLOWED = {"html", "head", "meta", "title", "style", "body", "header", "main", "h1", "h2", "dl", "dt", "dd", "p", "code", "div", "table",
           "thead", "tbody", "tr", "th", "td", "svg", "g", "path", "line", "text", "rect", "details", "summary", "ul", "li", "span", "small", "br"}  # fmt: skip


class Tags(HTMLParser):
    """The tags and attributes of a page, and whether each is closed where it should be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a run with three minds, one of them with an event."""
    return record(tmp_path_factory.mktemp("run"))


def report(folder: Path, *options: str) -> str:
    done = CliRunner().invoke(serl, ["minds", "report", str(folder), *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return (folder / "report.html").read_text()


def test_the_page_shows_what_the_minds_saw_decided_and_own(folder: Path) -> None:
    html = report(folder)
    for text in (
        "3 minds made 12 decisions from 09:30:00 to 09:33:00, with the model fake.",
        "sell 10 AMZN at 101", "buy 4 AMZN at the market", "refused: prose", "Filled 4 of your order", "S1 is AMZN",
        "a lesson", "<small>cash 596.00, AMZN 4</small>", "remembered ", "news: AMZN falls", "prose 4",
    ):  # fmt: skip
        assert text in html
    figures = json.loads((folder / "report.json").read_text())
    holder, buyer, prose = figures["personas"]
    assert (holder["minds"], holder["decisions"], holder["refused"], prose["refused"]) == (1, 4, {}, {"prose": 4})
    assert holder["turnover"] == buyer["turnover"] == 404 and holder["fills"] == buyer["fills"] == 1
    assert (holder["first_wealth"], holder["last_wealth"]) == (101_000, 101_010), "10 shares at 100, then at 101"
    assert figures["minds"]["buyer-0"]["last_wealth"] == 1000
    assert "<title>holder-0 +0.01%</title>" in html and html.count("<path ") == 3
    assert re.search(r"<g><title>1: AMZN falls &lt;", html), "the event is on the axis"


def test_text_of_models_is_text(folder: Path) -> None:
    tags = Tags(report(folder))
    assert tags.tags <= ALLOWED
    assert not {name for name in tags.attributes if name.startswith("on") or name in ("src", "href", "style")}
    html = (folder / "report.html").read_text()
    assert "\u202e" not in html and "\0" not in html
    assert html.count("&lt;script&gt;") >= 20, "reasons, posts, events, lessons, memories"


def test_a_run_that_is_under_way_has_a_page(folder: Path, tmp_path: Path) -> None:
    text = (folder / DECISIONS).read_text()
    (tmp_path / DECISIONS).write_text(text[: text.index('"row": "decision"') + 3000] + '{"row": "deci')
    html = report(tmp_path)
    assert "The run is not over" in html
    assert json.loads((tmp_path / "report.json").read_text())["personas"][0]["turnover"] is None
    (tmp_path / DECISIONS).write_text(text[: text.index("\n") + 1])
    assert "No decisions yet" in report(tmp_path)


@pytest.mark.parametrize("name", ["statistics.html", "decisions.jsonl", "calls.jsonl"])
def test_a_page_replaces_no_file_of_the_run(folder: Path, name: str) -> None:
    before = (folder / STATISTICS).read_text(), (folder / DECISIONS).read_text()
    done = CliRunner().invoke(serl, ["minds", "report", str(folder), "-o", str(folder / name)])
    assert done.exit_code and "replaces no file of the run" in done.output + str(done.exception)
    assert ((folder / STATISTICS).read_text(), (folder / DECISIONS).read_text()) == before


def test_the_rows_of_a_new_run_replace_the_files_of_the_one_before(tmp_path: Path) -> None:
    (tmp_path / DECISIONS).write_text("old\n")
    (tmp_path / STATISTICS).write_text("{}")
    with DecisionFile(tmp_path) as decisions:
        assert (tmp_path / STATISTICS).exists()
        decisions.add({"row": "start"})
    assert (tmp_path / DECISIONS).read_text() == '{"row": "start"}\n'
    assert not (tmp_path / STATISTICS).exists()


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("no JSON", ":2: expected a JSON object, got 'no JSON'"),
        ('{"row": "decision"}', ":2: expected a row of this version of serl, got another"),
        (
            '{"row": "end", "time_ns": 0, "mind": "a", "persona": "a", "wealth": NaN}',
            ":2: expected a row of this version",
        ),
        (
            '{"row": "lesson", "time_ns": 0, "mind": "a", "persona": "a", "lesson": "\\ud800"}',
            ":2: expected a row of this",
        ),
    ],
)
def test_bad_files_are_one_line_errors(folder: Path, tmp_path: Path, row: str, error: str) -> None:
    def fails(expected: str) -> None:
        done = CliRunner().invoke(serl, ["minds", "report", str(tmp_path)])
        assert done.exit_code and expected in str(done.exception or done.output) + done.output

    fails("expected the decisions of a run")
    path = tmp_path / DECISIONS
    path.write_text(row + "\n")
    fails(":1: expected ")
    path.write_text((folder / DECISIONS).read_text().partition("\n")[0] + "\n" + row + "\n")
    fails(error)
    path.write_text("")
    fails("expected a run's start in the first row")
    path.write_text((folder / DECISIONS).read_text())
    (tmp_path / STATISTICS).write_text("[]")
    fails("expected the statistics of a run")
