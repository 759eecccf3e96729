"""What registered comparisons have in common: a command line that tries them out in small."""

import argparse
import dataclasses
import json
from collections.abc import Callable
from typing import Any, TypeVar

from benchmarks.endings import one_line_endings

Study = TypeVar("Study")


def try_out(kind: type[Study], compared: Callable[[Study], dict[str, Any]], description: str | None) -> None:
    """Compares with the numbers of a study, a dataclass, from the command line, and prints the figures as JSON."""
    parser = argparse.ArgumentParser(description=description)
    for field in dataclasses.fields(kind):  # pyrefly: ignore[bad-argument-type]
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, default=field.default)
    with one_line_endings("nothing is kept"):
        print(json.dumps(compared(kind(**vars(parser.parse_args()))), indent=1))
