"""`python -m tests.fuzz TARGET --runs N`: coverage-guided fuzzing of a target with atheris (extra `fuzz`).

New inputs go to runs/fuzz/TARGET, an input that is a finding to runs/fuzz/findings. Give such a file in place of --runs to see it again.
"""

import argparse
import importlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import atheris

from tests.fuzz.modules import MODULES
from tests.fuzz.targets import TARGETS

FOLDER = Path("runs/fuzz")


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods in plain Python that a module defines."""
    for value in list(vars(module).values()):
        members = (
            list(vars(value).values()) if isinstance(value, type) and value.__module__ == module.__name__ else [value]
        )
        for member in members:
            member = getattr(member, "__func__", member)
            if isinstance(member, FunctionType) and member.__module__ == module.__name__:
                yield member


def main() -> None:
    """Fuzzes until --runs are done, or the first finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=list(TARGETS))
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=0, help="0: as long as the runs take")
    parser.add_argument("--input", type=Path, help="run this file only")
    given = parser.parse_args()
    target = TARGETS[given.target]
    for name in MODULES[given.target]:
        for function in functions(importlib.import_module(name)):
            atheris.instrument_func(function)
    with tempfile.TemporaryDirectory() as folder:
        if given.input is not None:
            print("accepted" if target.run(given.input.read_bytes(), Path(folder)) else "refused")
            return
        found, new = FOLDER / "findings", FOLDER / given.target
        for path in (found, new):
            path.mkdir(parents=True, exist_ok=True)
        options = [f"-runs={given.runs}", f"-max_total_time={given.seconds}", f"-artifact_prefix={found}/{given.target}-", "-max_len=65536"]  # fmt: skip
        kept = Path(__file__).parent / "corpus" / given.target
        more = {} if target.mutate is None else {"custom_mutator": _mutator(target.mutate)}
        atheris.Setup([sys.argv[0], *options, str(new), str(kept)], lambda data: target.run(data, Path(folder)), **more)
        atheris.Fuzz()


def _mutator(mutate: Callable[[bytes, int], bytes]) -> Callable[[bytes, int, int], bytes]:
    """Half of the changes keep the structure of the input."""

    def changed(data: bytes, size_max: int, seed: int) -> bytes:
        if seed % 2:
            return bytes(atheris.Mutate(data, size_max))
        found = mutate(data, seed)
        return found if len(found) <= size_max else data

    return changed


if __name__ == "__main__":
    main()
