"""The layout of reports: one self-contained file that states its origin."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from serl.agents.pages.origin import Origin, command_line, current_origin
from serl.agents.pages.page import check_path, page, png, table, write, write_with_picture
from serl.exchange.errors import ConfigError, SerlError
from tests.clients.dashboard.server_fixture import browser

VOID = {"meta", "img", "br"}
ORIGIN = Origin("serl impact <here>", "goog.yaml sha256 ab12", 7, {"python": "3.11"}, "2026-01-02 03:04 UTC")


class Tags(HTMLParser):
    """Collects the open elements, and every address that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.fetched += [value for name, value in attributes if name in ("src", "href") and value[:5] != "data:"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_self_contained_and_states_its_origin() -> None:
    text = page("A & B", ORIGIN, [table(["name", "x"], [["one", "1"]]), png(b"\x89PNG", 'a "picture"')])
    tags = Tags()
    tags.feed(text)
    assert not tags.open and not tags.fetched and "://" not in text
    for word in (
        "<title>A &amp; B</title>",
        "serl impact &lt;here&gt;",
        "sha256 ab12",
        "<dd>7</dd>",
        "python 3.11",
        "03:04",
    ):
        assert word in text
    assert "default-src 'none'" in text and "prefers-color-scheme: dark" in text and "width=device-width" in text
    assert 'class="wide" tabindex="0"' in text, "wide tables scroll, by keyboard too"
    assert "a &quot;picture&quot;" in text


def test_text_has_enough_contrast() -> None:
    """WCAG 2.1, 1.4.3: a contrast of 4.5 or more, light and dark."""
    schemes = [
        dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", page("", ORIGIN, []))
    ]
    assert len(schemes) == 2
    for colours in schemes:
        for ground in ("ground", "head"):
            for ink in ("text", "soft", "accent", "yes", "no"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground, colours)


def contrast(one: str, other: str) -> float:
    """By WCAG 2.1's relative luminance."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.long
def test_on_a_phone_tables_scroll_and_the_page_does_not(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    long_path = f"<p>Policy: <code>/{'folder/' * 12}{'x' * 80}.safetensors</code></p>"
    wide = table([f"column {number}" for number in range(12)], [["1.23456"] * 12])
    path.write_text(
        page("A name that is rather long " + "y" * 60, ORIGIN, [long_path, wide, "<pre>" + "z" * 200 + "</pre>"])
    )
    with browser() as opened:
        shown = opened.new_page(viewport={"width": 390, "height": 844})
        shown.goto(path.as_uri())
        assert shown.evaluate("document.documentElement.scrollWidth") == 390


def test_an_empty_table_and_a_missing_seed_are_stated() -> None:
    assert table(["a"], []) == "<p>None.</p>"
    assert "<dd>none</dd>" in page("t", Origin("c", "d", None, {}), [])


@pytest.mark.parametrize("option", [["--token", "secret"], ["--token=secret"]])
def test_command_lines_hide_secrets(option: list[str]) -> None:
    shown = command_line(["serl", "execute", "my policy", *option, "--qty", "5"])
    assert "secret" not in shown and "HIDDEN" in shown
    assert shown.startswith("serl execute 'my policy' --token") and shown.endswith(" --qty 5")


def test_the_current_origin_has_versions_and_a_date() -> None:
    origin = current_origin("x", None)
    assert set(origin.versions) >= {"python", "numpy", "numba"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", origin.date)


def test_json_and_picture_are_next_to_the_page(tmp_path: Path) -> None:
    paths = write_with_picture(tmp_path / "impact.json", "<p>", {"made": ORIGIN.to_json()}, b"\x89PNG")
    assert [path.name for path in paths] == ["impact.html", "impact.json", "impact.png"]
    assert json.loads(paths[1].read_text())["made"]["seed"] == 7


@pytest.mark.parametrize(
    ("name", "message"), [("x.json", r"ends in \.html"), ("nowhere/x.html", "a folder that exists")]
)
def test_unwritable_files_are_errors(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SerlError, match=message):
        write(tmp_path / name, "", {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("source", ["x.html", "x.json", "x.png"])
def test_no_file_of_a_report_replaces_its_input(source: str, tmp_path: Path) -> None:
    """`serl signals test signals.json DAY` put the report's numbers in the place of the forecaster: its default output is signals.html."""
    (tmp_path / source).write_text("input")
    check_path(tmp_path / "x.html", tmp_path / "other")
    with pytest.raises(ConfigError, match=rf"{source}, which it would replace; give another name"):
        check_path(tmp_path / "x.html", tmp_path / "other", tmp_path / source)


def test_a_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "x.html").mkdir()
    with pytest.raises(SerlError, match=r"x\.html: expected a file to write, got a folder; give another name"):
        check_path(tmp_path / "x.html")
