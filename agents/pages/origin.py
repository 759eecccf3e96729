"""What a report was made by and from."""

import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

PACKAGES = ("serl", "numpy", "numba")
HIDDEN = "HIDDEN"
SECRETS = ("--token",)
"""Options whose values are nobody else's business: reports are handed around."""


@dataclass(frozen=True)
class Origin:
    """What is needed to make a report again."""

    command: str
    data: str
    """Names with fingerprints; of simulated markets the population's."""
    seed: int | None
    """None where nothing is drawn."""
    versions: dict[str, str]
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON."""
        return asdict(self)


def current_origin(data: str, seed: int | None) -> Origin:
    """Of a report that this process makes."""
    return Origin(command_line(sys.argv), data, seed, versions())


def command_line(arguments: Sequence[str]) -> str:
    """What was typed, as a shell takes it; without secrets."""
    words, hidden = ["serl"], False
    for word in arguments[1:]:
        name, equals, _ = word.partition("=")
        words.append(HIDDEN if hidden else f"{name}={HIDDEN}" if name in SECRETS and equals else word)
        hidden = not hidden and word in SECRETS
    return shlex.join(words)


def versions() -> dict[str, str]:
    """Of Python, serl and what computes for it; packages that are not installed are left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # serl itself, in a checkout
            continue
    return found
