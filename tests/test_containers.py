"""The container files name what exists: no container engine is needed to see that."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import yaml

from serl.cli import serl

ROOT = Path(__file__).parents[1]
CONTAINERFILE = (ROOT / "Containerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())


def parsed(words: list[str]) -> str:
    """The command that these words run; click raises if an option is wrong."""
    command: click.Command = serl
    context = click.Context(command)
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)  # pyrefly: ignore[bad-assignment]
        context = click.Context(command, parent=context, info_name=name)
    command.make_context(context.info_name, words, parent=context.parent)
    return context.command_path.strip()


def test_the_commands_are_those_of_serl() -> None:
    (default,) = re.findall(r"^CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)
    lines = [shlex.split(service["command"]) for service in COMPOSE["services"].values()]
    assert [parsed(words) for words in (yaml.safe_load(default), *lines)] == [
        "exchange start", "exchange start", "dashboard"
    ]  # fmt: skip


def test_the_image_installs_extras_and_tools_that_exist() -> None:
    (extras,) = re.findall(r"'\./source\[(.*?)\]'", CONTAINERFILE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)
    (tool,) = re.findall(r"uv==\S+", CONTAINERFILE)
    assert tool in (ROOT / "Makefile").read_text(), "one version of uv"


def test_volumes_and_services_belong_together() -> None:
    used = {volume.partition(":")[0] for service in COMPOSE["services"].values() for volume in service["volumes"]}
    assert used == set(COMPOSE["volumes"])
    inside = {volume.partition(":")[2] for service in COMPOSE["services"].values() for volume in service["volumes"]}
    (declared,) = re.findall(r"^VOLUME (.*)$", CONTAINERFILE, re.MULTILINE)
    assert inside == set(declared.split()), "made in the image, so that they belong to its user"
