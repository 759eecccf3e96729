"""Rules of the code base: file sizes, docstrings, names, links."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("exchange", "history", "clients", "gateways", "agents", "researcher", "configs")
FILE_LINES_MAX, FUNCTION_LINES_MAX = 420, 80
FORBIDDEN_WORDS = ("processor", "manager", "handler", "helper", "utils")
UNFINISHED = re.compile("TO" + "DO|FIX" + "ME|NotImpl" + "emented|place" + "holder|for n" + "ow")


FORMER_NAMES = frozenset(
    [
        "_Hearer",
        "Course",
        "Daytime",
        "Gate",
        "Given",
        "Joined",
        "Past",
        "Spool",
        "Words",
        "Written",
        "asking",
        "barred",
        "descend",
        "plug",
        "rest_rest",
        "speech",
        "steps_until_away",
        "take_up",
        "veil",
    ]
)
"""Private words that the terms of the field have replaced."""
UNCLEAR_ERROR = re.compile(r"\b(?:is|are) du" + r"e[,;:]? (?:got|like|such)")
"""An error says: expected X, got Y; do Z."""


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


PYTHON = [path for path in tracked("*.py") if "src/serl" not in str(path) or path.parent.name == "serl"]


def defined_names(tree: ast.Module) -> set[str]:
    """Names of classes, functions, parameters, variables and fields."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
    return names


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_small_documented_and_finished(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= FILE_LINES_MAX
    assert ast.get_docstring(tree), "a module needs a docstring"
    assert not UNFINISHED.search(text)
    assert not UNCLEAR_ERROR.search(text)
    if any(name in text for name in FORMER_NAMES):
        assert not FORMER_NAMES & defined_names(tree)
    defined = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    names = {node.name.lower() for node in defined}
    for word in FORBIDDEN_WORDS:
        assert word not in path.stem.lower()
        assert not [name for name in names if word in name]
    for node in defined:
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < FUNCTION_LINES_MAX, node.name


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_links_that_cannot_be_imported_without_serl(package: str) -> None:
    link = ROOT / "src" / "serl" / package
    assert link.is_symlink()
    assert link.resolve() == ROOT / package
    assert f'if __name__ == "{package}":' in (ROOT / package / "__init__.py").read_text()


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in tracked("*.md"):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_no_paths_of_a_machine() -> None:
    for path in tracked("*.py", "*.md", "*.yaml", "*.toml", "Makefile"):
        if path.name != "test_tidy.py":
            assert not re.search(r"/(work|root|tmp|home)/", path.read_text()), path
