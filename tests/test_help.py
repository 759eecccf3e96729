"""Every command's --help ends with an example that parses."""

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from serl.cli import serl

START = "Example: "


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, (*path, name))


ALL = dict(commands(serl))


def parse(words: list[str]) -> tuple[str, ...]:
    """Parses `serl ...` without running it. Returns the command's name. Raises click.UsageError if it does not parse."""
    assert words[0] == "serl"
    command: click.Command = serl
    words, path = words[1:], tuple[str, ...]()
    while isinstance(command, click.Group):
        path += (words[0],)
        command, words = ALL[path], words[1:]
    command.make_context(" ".join(path), list(words))
    return path


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_ends_with_an_example_that_parses(path: tuple[str, ...]) -> None:
    epilog = ALL[path].epilog
    assert epilog and epilog.startswith(START), "the command needs epilog='Example: serl ...'"
    called = [parse(shlex.split(line)) for line in epilog.removeprefix(START).split("&&")]
    assert any(one[: len(path)] == path for one in called), "the example is of another command"


@pytest.mark.parametrize("path", [(), ("exchange", "start"), ("demo",), ("execute",)], ids=" ".join)
def test_help_fits_a_terminal_of_24_columns(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    text = CliRunner().invoke(serl, [*path, "--help"]).output
    assert max(map(len, text.splitlines())) <= 24
    squeezed = "".join(text.split())
    for option in ALL[path].params:
        assert all(name in squeezed for name in option.opts if name.startswith("--"))


@pytest.mark.parametrize("line", ["serl exchange start --symbol A", "serl execute twap", "serl keys new one two"])
def test_commands_that_do_not_parse_are_found(line: str) -> None:
    with pytest.raises(click.UsageError):
        parse(shlex.split(line))
