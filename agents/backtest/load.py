"""Loads a strategy from a user's file, and locates exceptions in that file."""

import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from serl.agents.backtest.errors import StrategyError
from serl.agents.backtest.strategy import Strategy
from serl.agents.traders.registry import Kind, kinds_of
from serl.signals import Terminated

MODULE_PREFIX = "serl_strategy_"
CALLED = re.compile(r"\b(?:__init__|on_start|on_fill|on_wake)\(\)")
"""Matches a TypeError whose cause is that a method called by serl has the wrong parameters."""


@dataclass(frozen=True)
class Loaded:
    """A strategy loaded from a file: a class, or a compiled kind of trader."""

    name: str
    path: Path
    found: type[Strategy] | Kind

    @property
    def is_compiled(self) -> bool:
        """Whether the strategy is a compiled kind of trader."""
        return isinstance(self.found, Kind)


def load_strategy(path: Path, name: str | None = None) -> Loaded:
    """Loads a file's strategy: a subclass of Strategy, or a kind of trader. Raises StrategyError if there is none, or several and no `name`."""
    if not path.is_file():
        raise StrategyError(f"{path}: expected a Python file with a strategy, got no such file; check the path")
    module = _imported(path)
    found: dict[str, type[Strategy] | Kind] = {kind.name: kind for kind in kinds_of(module.__name__)}
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Strategy) and value.__module__ == module.__name__:
            found[value.__name__] = value
    if not found:
        raise StrategyError(
            f"{path}: expected a subclass of serl.Strategy or a function with @trader, got neither; write one, as "
            "docs/tutorials/backtest-a-bot.md shows"
        )
    if name is None and len(found) == 1:
        (name,) = found
    if name not in found:
        got = "no --strategy" if name is None else f"--strategy {name}"
        raise StrategyError(f"{path}: expected --strategy with one of {', '.join(found)}, got {got}; name one of them")
    return Loaded(name, path, found[name])


def _imported(path: Path) -> ModuleType:
    """Imports the file as a module, which can import the modules next to it."""
    name = MODULE_PREFIX + path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise StrategyError(f"{path}: expected a Python file, got another kind of file; its name must end in .py")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with user_code(path, "an import"):
        spec.loader.exec_module(module)
    return module


@contextmanager
def user_code(path: Path, where: str) -> Iterator[None]:
    """Turns an exception from the file's code into a StrategyError with file and line; other exceptions pass through."""
    try:
        yield
    except SyntaxError as error:
        if error.filename is None:
            raise
        text = f"{error.filename}:{error.lineno}: expected Python, got a SyntaxError ({error.msg}); correct the line"
        raise StrategyError(text) from error
    except Terminated:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).resolve() == path.resolve()]
        if not own and not (isinstance(error, TypeError) and CALLED.search(str(error))):
            raise
        place = f"{path}:{own[-1].lineno}" if own else str(path)
        got = f"{type(error).__name__} ({error})"
        raise StrategyError(
            f"{place}: expected {where} without an exception, got {got}; correct the strategy"
        ) from error
