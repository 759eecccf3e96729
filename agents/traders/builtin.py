"""YAML files that come with serl, by name: populations, experiments, LLM traders. Reads them, and defines the options that take one."""

import difflib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from serl.exchange.errors import ConfigError

POPULATIONS, EXPERIMENTS, MINDS = "populations", "experiments", "minds"
"""Folders of serl.configs."""
DOCS = {POPULATIONS: "traders.md", EXPERIMENTS: "experiments.md", MINDS: "minds.md"}
"""The documentation page for the files of each folder."""


def builtin_names(folder: str) -> list[str]:
    """Names of the files of a folder, sorted."""
    found = files("serl.configs").joinpath(folder)
    return sorted(item.name.removesuffix(".yaml") for item in found.iterdir() if item.name.endswith(".yaml"))


def builtin_populations() -> list[str]:
    """Names of the populations, sorted."""
    return builtin_names(POPULATIONS)


class BuiltinFile(click.types.StringParamType):
    """An option for a built-in name or a YAML file. The shell completes both; `read_yaml` reports the error for anything else."""

    def __init__(self, name: str, folder: str) -> None:
        self.name, self.folder = name, folder

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """See click.ParamType."""
        names = [CompletionItem(name) for name in builtin_names(self.folder) if name.startswith(incomplete)]
        # files first, because they make bash forget earlier items
        return [CompletionItem(incomplete, type="file"), *names]


POPULATION = BuiltinFile("population", POPULATIONS)
EXPERIMENT = BuiltinFile("experiment", EXPERIMENTS)
MINDS_FILE = BuiltinFile("minds", MINDS)
FORECASTER = click.option(
    "--forecaster",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file of `serl signals train`: adds a forecaster, whose forecasts the other traders can read.",
)


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Advice for an unknown name: known names that are close to it, else `otherwise`."""
    close = difflib.get_close_matches(name, list(known))
    return f"did you mean {' or '.join(close)}?" if close else otherwise


def read_yaml(
    source: Path | str, folder: str, error: type[ConfigError], needed: str, near: Path = Path()
) -> dict[str, Any]:
    """Reads the mapping in a YAML file, given by path (relative to `near`) or by name in a folder of serl.configs.

    needed: what the mapping must have, for the error message. Raises `error` if there is no such file, or no mapping in it.
    """
    import yaml  # imported here so that --help is fast

    from serl.exchange.yaml_text import parse_shipped, parse_yaml

    path, builtin = near / source, files("serl.configs").joinpath(folder, f"{source}.yaml")
    if not path.exists() or (path.is_dir() and builtin.is_file()):
        if not builtin.is_file():
            names = builtin_names(folder)
            raise error(
                f"{source}: expected a YAML file or one of {', '.join(names)}, got neither; "
                f"{did_you_mean(str(source), names, 'check the path')}"
            )
        shipped: dict[str, Any] = parse_shipped(builtin.read_bytes())
        return shipped
    try:
        text = path.read_bytes()
    except OSError as reason:
        raise error(f"{source}: expected a YAML file, got one that cannot be read ({reason}); give another") from None
    try:
        values = parse_yaml(text)
    except yaml.YAMLError as reason:
        raise error(f"{source}: expected YAML, got {' '.join(str(reason).split())}; correct the file") from None
    if not isinstance(values, dict):
        raise error(f"{source}: expected a mapping with {needed}, got {type(values).__name__}; see docs/{DOCS[folder]}")
    return values
