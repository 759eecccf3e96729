"""The documentation site: every page is in the navigation, every link leads to an existing section, and it needs no other host."""

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.doc_blocks import DOCS, PAGES, ROOT
from tests.notebooks import NOTEBOOKS

OUTSIDE = ("://", "mailto:")


def pages_of(entries: list[Any]) -> list[str]:
    """The pages of a nested navigation."""
    values = [value for entry in entries for value in entry.values()]
    return [page for value in values for page in (pages_of(value) if isinstance(value, list) else [value])]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    pages = [page for page in PAGES if page.is_relative_to(DOCS)] + [path.with_suffix(".md") for path in NOTEBOOKS]
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in pages)


def slugs(page: Path) -> set[str]:
    """Anchors of a page's headings, as Python-Markdown's toc makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head.replace("`", "")).strip().lower()) for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_sections(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if any(mark in target for mark in OUTSIDE):
            continue
        file, _, section = target.partition("#")
        there = page if not file else page.parent / file
        assert there.exists(), target
        assert not page.is_relative_to(DOCS) or there.resolve().is_relative_to(DOCS), f"{target} is not on the site"
        assert not section or section in slugs(there), target


def test_what_the_comparison_claims_of_serl_has_a_test() -> None:
    text = (DOCS / "comparison.md").read_text()
    notes = dict(re.findall(r"^\[\^(\w+)\]: (.+)$", text, re.MULTILINE))
    assert set(notes) == set(re.findall(r"\[\^(\w+)\](?!:)", text))
    cells = re.findall(r"^\| [^|]+ \| ([^|]+) \|", text, re.MULTILINE)
    assert cells and all("[^" in cell or cell == "no" for cell in cells)
    for note in notes.values():
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", note)
        assert named
        for file, name in named:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"


class Fetched(HTMLParser):
    """What a browser loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        given = dict(attributes)
        if tag in ("script", "img", "iframe", "source") or (tag == "link" and given.get("rel") != "canonical"):
            self.found += [given[name] for name in ("src", "href") if given.get(name)]


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec("mkdocstrings") is None, reason="the extra docs is not installed; make docs does it"
)
def test_the_site_is_built_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    built = list(tmp_path.rglob("*.html"))
    assert len(built) > 20 and not [path for path in tmp_path.rglob("*hooks*") if path.suffix.startswith(".py")]
    for path in NOTEBOOKS:
        shown = re.findall(rf'src="({path.stem}-\d+\.png)"', (tmp_path / "notebooks" / f"{path.stem}.html").read_text())
        assert len(shown) == path.read_text().count('"image/png"')
        assert all((tmp_path / "notebooks" / name).stat().st_size for name in shown)
    for page in built:
        parser = Fetched()
        parser.feed(page.read_text())
        assert parser.found and not [url for url in parser.found if "://" in url or url.startswith("//")], page.name
