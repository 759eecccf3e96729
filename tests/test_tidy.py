"""Rules of the code base: file sizes, docstrings, names, links."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("exchange", "history", "clients", "gateways", "agents", "researcher", "minds", "configs")
FILE_LINES_MAX, FUNCTION_LINES_MAX = 420, 80
FORBIDDEN_WORDS = ("processor", "manager", "handler", "helper", "utils")
UNFINISHED = re.compile("TO" + "DO|FIX" + "ME|NotImpl" + "emented|place" + "holder|for n" + "ow")


FORMER_NAMES = frozenset(
    [
        "Asked",
        "Awaited",
        "Course",
        "Daytime",
        "Gate",
        "Given",
        "Joined",
        "PartedCollector",
        "Past",
        "Pointed",
        "ProposedAhead",
        "Questions",
        "Spool",
        "Strangers",
        "TradersBeside",
        "Words",
        "Written",
        "_Hearer",
        "asking",
        "barred",
        "compiled_beside",
        "descend",
        "plug",
        "pointed_at",
        "rest_rest",
        "speech",
        "steps_until_away",
        "take_up",
        "veil",
    ]
)
"""Private words that the terms of the field have replaced."""
FORMER_WORD = re.compile(rf"\b(?:{'|'.join(FORMER_NAMES)})\b")
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


def definitions(block: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """The classes and functions that a block defines, those within others included."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(block, field, ()):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield node
            yield from definitions(node)


def untidy(text: str, stem: str) -> Iterator[str]:
    """What is wrong with a file, named without its ending `stem`."""
    tree = ast.parse(text)
    if len(text.splitlines()) > FILE_LINES_MAX:
        yield f"expected at most {FILE_LINES_MAX} lines"
    if not ast.get_docstring(tree):
        yield "expected a docstring of the module"
    for pattern in (UNFINISHED, UNCLEAR_ERROR):
        if (found := pattern.search(text)) is not None:
            yield f"expected nothing like {found.group()!r}"
    possible = any(name in text for name in FORMER_NAMES) and FORMER_WORD.search(text)  # the former is the quicker one
    if possible and (former := FORMER_NAMES & defined_names(tree)):
        yield f"expected the terms of the field, got {sorted(former)}"
    defined = list(definitions(tree))
    for name in (stem, *(node.name for node in defined)):
        if any(word in name.lower() for word in FORBIDDEN_WORDS):
            yield f"expected a name that says what it is, got {name}"
    for node in defined:
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX:
            yield f"expected at most {FUNCTION_LINES_MAX} lines in {node.name}"


def test_files_are_small_documented_and_finished() -> None:
    """All in one test: a test for each file costs more than what it checks."""
    assert len(PYTHON) > 1000
    found = [f"{path.relative_to(ROOT)}: {fault}" for path in PYTHON for fault in untidy(path.read_text(), path.stem)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("text", "fault"), [
    ('"""A page."""\n' + "x = 1\n" * FILE_LINES_MAX, "lines"),
    ("x = 1\n", "docstring of the module"),
    ('"""A page."""\n# TO' + 'DO\n', "nothing like"),
    ('"""A page."""\nx = "a number is du' + 'e, got y"\n', "nothing like"),
    (f'"""A page."""\n{min(FORMER_NAMES)} = 1\n', "terms of the field"),
    ('"""A page."""\n\n\nclass OrderManager: ...\n', "OrderManager"),
    ('"""A page."""\n\n\ndef long():\n' + "    x = 1\n" * FUNCTION_LINES_MAX, "lines in long"),
])  # fmt: skip
def test_what_is_untidy_is_found(text: str, fault: str) -> None:
    (only,) = untidy(text, "page")
    assert fault in only


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
