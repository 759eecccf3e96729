"""The origin of a report: the command, data, seed and versions that it was made with."""

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
"""Options whose values are hidden, because reports are shared."""


@dataclass(frozen=True)
class Origin:
    """What is needed to reproduce a report."""

    command: str
    data: str
    """Names with fingerprints; for simulated markets, the population's."""
    seed: int | None
    """None if nothing is random."""
    versions: dict[str, str]
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))

    def to_json(self) -> dict[str, Any]:
        """The origin as plain JSON."""
        return asdict(self)


def current_origin(data: str, seed: int | None) -> Origin:
    """The origin of a report that this process makes."""
    return Origin(command_line(sys.argv), data, seed, versions())


def command_line(arguments: Sequence[str]) -> str:
    """The command line quoted for a shell, with secrets hidden."""
    shown, is_secret = ["serl"], False
    for argument in arguments[1:]:
        name, equals, _ = argument.partition("=")
        shown.append(HIDDEN if is_secret else f"{name}={HIDDEN}" if name in SECRETS and equals else argument)
        is_secret = not is_secret and argument in SECRETS
    return shlex.join(shown)


def versions() -> dict[str, str]:
    """Versions of Python, serl and its numerical packages; packages that are not installed are omitted."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # serl itself, in a checkout
            continue
    return found
