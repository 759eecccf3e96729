"""`serl docs`: the site is built when its sources have changed, and served until Ctrl-C."""

import importlib
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from serl import docs_site, tables
from serl.cli import serl
from tests.doc_blocks import DOCS

ENTRY = re.compile(r"^::: (\S+)\n((?:    .*\n)*)", re.MULTILINE)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout, and an empty cache."""
    pytest.importorskip("mkdocs")
    monkeypatch.setattr(docs_site, "BUILDERS", ("mkdocs",))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "checkout"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "index.md").write_text("# First\n")
    (root / "mkdocs.yml").write_text("site_name: small\ntheme: {name: mkdocs, locale: en}\n")
    return root


def test_a_site_is_built_once_for_each_content(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = docs_site.built_site(checkout)
    assert "First" in (first / "index.html").read_text()
    with monkeypatch.context() as patched:
        patched.setattr(docs_site, "_build", lambda *_: pytest.fail("the site is in the cache"))
        assert docs_site.built_site(checkout) == first
    (checkout / "docs" / "index.md").write_text("# Second\n")
    second = docs_site.built_site(checkout)
    assert "Second" in (second / "index.html").read_text()
    assert not first.exists() and list(second.parent.iterdir()) == [second]


def test_a_changed_docstring_makes_another_site(checkout: Path) -> None:
    before = docs_site.fingerprint(checkout)
    (checkout / "agents").mkdir()
    (checkout / "agents" / "one.py").write_text('"""One."""\n')
    assert docs_site.fingerprint(checkout) != before


def test_a_site_that_cannot_be_built_leaves_nothing(checkout: Path) -> None:
    (checkout / "mkdocs.yml").write_text("site_name: small\nplugins: [nosuchplugin]\n")
    with pytest.raises(docs_site.NoDocumentation, match=r"expected mkdocs to build .*docs, got: .*; see `make docs`"):
        docs_site.built_site(checkout)
    assert [path for path in (checkout.parent / "cache").rglob("*") if path.is_file()] == []


def test_an_installed_package_says_what_to_do(tmp_path: Path) -> None:
    docs_site.require_checkout()
    with pytest.raises(docs_site.NoDocumentation, match=r"got an installed package.*run `serl docs` in a checkout"):
        docs_site.require_checkout(tmp_path)


def test_the_browser_is_opened_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr("serl.extras.require", lambda *_, **__: None)
    monkeypatch.setattr(docs_site, "built_site", lambda: tmp_path)
    monkeypatch.setattr("click.launch", opened.append)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    shown = CliRunner().invoke(serl, ["docs", "--port", "0"])
    assert shown.exit_code == 0 and len(opened) == 1 and f"documentation {opened[0]}\n" in shown.output
    assert CliRunner().invoke(serl, ["docs", "--port", "0", "--no-browser"]).exit_code == 0 and len(opened) == 1


@pytest.mark.long
def test_the_documentation_is_served_with_search(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings")
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "serl", "docs", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as served:
        assert served.stdout is not None
        address = served.stdout.readline().split()[1]
        for page, text in (("", "What serl is"), ("search/search_index.json", "Stylised facts"), ("api/library.html", 'id="serl.Market.buy"')):  # fmt: skip
            with urllib.request.urlopen(address + page, timeout=60) as answer:
                assert text in answer.read().decode()
        served.send_signal(signal.SIGINT)
        assert served.wait(timeout=60) == 128 + signal.SIGINT


def entries(page: Path) -> list[tuple[str, list[str]]]:
    """(what is shown, its chosen members) of a page of the API reference."""
    found = []
    for name, options in ENTRY.findall(page.read_text()):
        given: dict[str, Any] = (yaml.safe_load(options) or {}).get("options", {})
        found.append((name, given.get("members", [])))
    return found


def resolve(name: str) -> Any:
    """A module, or a public name in one."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("page", sorted((DOCS / "api").glob("*.md")), ids=lambda page: page.stem)
def test_the_reference_shows_names_that_exist(page: Path) -> None:
    pytest.importorskip("torch")
    for name, members in entries(page):
        found = resolve(name)
        assert [member for member in members if not hasattr(found, member)] == []


def test_the_reference_shows_every_table() -> None:
    (shown,) = [members for name, members in entries(DOCS / "api" / "tables.md") if name == "serl.tables"]
    assert sorted(shown) == dir(tables)
