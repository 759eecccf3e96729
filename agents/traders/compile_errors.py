"""Explains why numba cannot compile a trader's function, in one line with file and line number."""

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from serl.agents.traders.errors import PopulationError

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NOISE = re.compile(r"^(Failed in |There are |Raised from|File |During: )")
RECORD = re.compile(r"Record\(.*?;(?:True|False)\)", re.DOTALL)
LITERAL = re.compile(r"Literal\[(\w+)\]\((.*?)\)")
REASON = re.compile(r"TypingError: ([^\n]*)")
ARGUMENTS = "missing ", "too many ", "got "
"""Beginnings of reasons that concern the arguments of a call."""
BYTECODE_PLACE = re.compile(r"\.? Raised from (.*)$")
PLACE = re.compile(r"^(?P<file>.*) \((?P<line>\d+)\)$")


def not_compiled(
    error: Exception, function: Callable[..., Any], records: Mapping[str, np.dtype[Any]]
) -> PopulationError:
    """The error for a function that failed to compile. records: types of its parameters, by the names that they should have."""
    code = function.__code__
    if isinstance(error, KeyError) and (found := _unknown_field(error.args[0], function, records)) is not None:
        line, text = found
        return PopulationError(f"{_shown(code.co_filename)}:{line}: {text}; correct the name")
    message = COLOURS.sub("", str(error))
    loc: Any = getattr(error, "loc", None)
    place = PLACE.match("" if loc is None else str(loc)) or PLACE.match(_bytecode_place(message))
    file, line = (code.co_filename, code.co_firstlineno) if place is None else (place["file"], int(place["line"]))
    return PopulationError(
        f"{_shown(file)}:{line}: expected code that numba can compile, got: {_cause(message)}; docs/traders.md says what a trader's function may use"
    )


def _unknown_field(
    name: Any, function: Callable[..., Any], records: Mapping[str, np.dtype[Any]]
) -> tuple[int, str] | None:
    """(line, reason) for the first use of a field that its record does not have."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return None
    parameters = dict(zip(function.__code__.co_varnames, records.items(), strict=False))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.value, ast.Name):
            record, dtype = parameters.get(node.value.id, ("", None))
            if dtype is not None and name not in (dtype.names or ()):
                fields = ", ".join(field for field in dtype.names or () if not field.endswith("_address"))
                return (
                    first + node.lineno - 1,
                    f"expected a field of the {record} ({fields}), got {node.value.id}.{name}",
                )
    return None


def _bytecode_place(message: str) -> str:
    found = BYTECODE_PLACE.search(message)
    return "" if found is None else found[1]


def _cause(message: str) -> str:
    """The line of numba's message that states the reason, with the types involved."""
    if (reason := REASON.search(message)) is not None and reason[1].startswith(ARGUMENTS):
        return reason[1]
    lines = [line.strip() for line in BYTECODE_PLACE.sub("", message).splitlines()]
    lines = [line for line in lines if line and not NOISE.match(line)]
    cause = lines[0] if lines else message
    if cause.endswith("found for signature:"):
        cause = "no " + next((line[4:] for line in lines if line.startswith(">>> ")), cause)
    return LITERAL.sub(r"\1 \2", RECORD.sub("record", cause)).rstrip(".")


def _shown(file: str) -> str:
    """A path as a user would type it."""
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative
