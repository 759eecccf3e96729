"""The tests: how long CI takes in a fresh clone with nothing installed or compiled, and a second `make test` there. Takes a quarter of an hour.

Needs git, make and a package index, and a quiet machine. cold_s: `.ci/run`, including the installation, every check and all compilation.
"""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.clone import Clone

SUMMARY = re.compile(r"(\d+) passed(?:, (\d+) skipped)?.* in [\d.]+s")
SHOWN = 4000
"""Characters of the output of tests that fail."""


def _seconds(clone: Clone, *command: str) -> tuple[float, int, int]:
    """(seconds, tests that passed, tests that were skipped) of a command. Raises RuntimeError if one fails."""
    try:
        seconds, output = clone.run(*command)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"expected tests that pass from {' '.join(command)}, got: {error.stdout[-SHOWN:]}") from None
    found = SUMMARY.findall(output)[-1]
    return seconds, int(found[0]), int(found[1] or 0)


def run() -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory(prefix="serl-bench-") as folder:
        clone = Clone(Path(folder))
        cold_s, passed, skipped = _seconds(clone, ".ci/run")
        warm_s, _, _ = _seconds(clone, "make", "test")
    return {"cold_s": cold_s, "warm_s": warm_s, "passed": passed, "skipped": skipped}
