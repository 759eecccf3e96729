"""How bugs are planted: functions of the exchange or its clients are replaced while a block runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Patch = tuple[Any, str, Callable[[Any], Any]]
"""(owner, name, what makes the replacement from the real function)."""


class Bug(NamedTuple):
    """A planted bug.

    Attributes:
        what: what is wrong.
        seam: `Python`: a function is replaced; `arrays`: the arrays of compiled code are changed between two steps, because the code itself
            cannot be; `found`: a defect that the simulation has found, put back.
    """

    what: str
    seam: str
    patches: tuple[Patch, ...]


def bug(what: str, *patches: Patch, seam: str = "Python") -> Bug:
    """A planted bug."""
    return Bug(what, seam, patches)


def replaced(owner: Any, name: str, value: Any) -> Patch:
    """A patch that does not need the real function."""
    return owner, name, lambda real: value


@contextmanager
def planted(planted_bug: Bug) -> Iterator[None]:
    """The code with a bug."""
    kept = []
    try:
        for owner, name, make in planted_bug.patches:
            kept.append((owner, name, vars(owner)[name]))
            setattr(owner, name, make(getattr(owner, name)))
        yield
    finally:
        for owner, name, value in reversed(kept):
            setattr(owner, name, value)
