"""Errors of the command line are one line."""

import errno
import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from serl import cli
from serl.agents.traders.builtin import builtin_populations
from serl.cli import GROUPS, serl
from serl.exchange.errors import ConfigError
from serl.exchange.ports import free_port
from serl.history.day import write_day
from serl.history.generate import OPEN_NS, generate_day


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("demo --output FILE --port PORT", "FILE"),
        ("keys new FILE", "FILE"),
        ("drop-copy -o FILE/x", "FILE/x"),
    ],
)
def test_an_unusable_path_is_a_one_line_error(line: str, path: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    arguments = line.replace("FILE", str(file)).replace("PORT", str(free_port())).split()
    done = subprocess.run([sys.executable, "-m", "serl", *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    (message,) = done.stderr.splitlines()
    assert message.startswith(f"error: {path.replace('FILE', str(file))}: ")


def test_a_full_disk_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def write(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cli, "serl", write)
    with pytest.raises(SystemExit) as raised:
        cli._run()
    assert raised.value.code == 2
    assert capsys.readouterr().err == "error: No space left on device; free disk space, and repeat the command\n"


@pytest.mark.long
def test_a_demo_with_its_port_in_use_starts_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        arguments = ["demo", "--no-researcher", "--port", port, "--output", str(tmp_path)]
        done = subprocess.run([sys.executable, "-m", "serl", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and f"127.0.0.1:{port} cannot be bound" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "volume-curve x.day -o x.day",
        "realism x.day x.day -o x.day",
        "signals train x.day -o x.day",
        "signals test signals.json x.day",
        "backtest bot.py --population small --config backtest.json",
    ],
)
def test_a_command_does_not_replace_its_input(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("x.day", "signals.json", "backtest.json", "bot.py")
    for name in names:
        Path(name).touch()  # refused before it is read
    refused = CliRunner().invoke(serl, line.split())
    assert isinstance(refused.exception, ConfigError) and "which it would replace" in str(refused.exception)
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == dict.fromkeys(names, 0)


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("bar-costs x.day --bar inf", "--bar"),
        ("news list --last 99999999999999999999", "--last"),
        (f"exchange start --with small --seed {1 << 63}", "--seed"),
        (f"agents start --population small --seed {1 << 63}", "--seed"),
    ],
)
def test_a_number_beyond_its_range_is_refused(line: str, option: str) -> None:
    """Tracebacks; and an exchange that went on without the traders which it was started for."""
    shown = CliRunner().invoke(serl, line.split())
    assert shown.exit_code == 2 and f"Invalid value for '{option}'" in shown.output


@pytest.fixture(scope="module")
def one_minute(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated day."""
    path = tmp_path_factory.mktemp("days") / "x.day"
    write_day(generate_day(1, end_ns=OPEN_NS + 60_000_000_000), path)
    return path


@pytest.mark.parametrize(
    ("closed", "command", "status"),
    [
        ("1", "day generate -o {day}2 --seed 1 --end 09:31", 0),
        pytest.param("2", "day generate -o {day}2 --seed 1 --end 09:31", 0, marks=pytest.mark.long),
        ("1", "day head {day}", 0),
        ("2", "day head {day}", 0),
        ("1", "day info nothing", 2),
        ("2", "day info nothing", 2),
    ],
)
def test_a_closed_output_is_no_traceback(closed: str, command: str, status: int, one_minute: Path) -> None:
    """As of a daemon that is started with `>&-`."""
    line = f"{shlex.quote(sys.executable)} -m serl {command.format(day=one_minute)}"
    done = subprocess.run(["sh", "-c", f"exec {line} {closed}>&-"], capture_output=True, text=True)
    assert done.returncode == status and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "advice"), [("exchnge", "did you mean exchange?"), ("quux", "got quux; see serl --help")]
)
def test_an_unknown_command_gets_advice(command: str, advice: str) -> None:
    shown = CliRunner().invoke(serl, [command])
    assert shown.exit_code == 2 and advice in shown.output


def test_help_lists_commands_in_groups() -> None:
    shown = CliRunner().invoke(serl, ["--help"]).output
    headings = [line.rstrip(":") for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *GROUPS]
    assert all(heading == heading.capitalize() for heading in GROUPS), "words, not names of classes"
    for heading, group in GROUPS.items():
        section = shown.split(f"\n{heading}:\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines() if not line.startswith("   ")] == list(group)


def completions(words: str, incomplete: str) -> list[str]:
    found = ShellComplete(serl, {}, "serl", "_SERL_COMPLETE").get_completions(words.split(), incomplete)
    return [item.value for item in found if item.type == "plain"]


@pytest.mark.parametrize(
    "words",
    ["simulate", "agents start --population", "impact --simulated", "evaluate --population", "demo --population"],
)
def test_the_shell_completes_names_of_populations(words: str) -> None:
    assert completions(words, "") == builtin_populations() != []
    assert completions(words, "s") == [name for name in builtin_populations() if name[0] == "s"]


def test_the_shell_completes_commands() -> None:
    assert completions("", "ex") == ["exchange", "experiment", "execute"]
    assert completions("exchange", "st") == ["start", "status", "stop"]
    assert "demo" in completions("quux", ""), "an unknown command is no error here"


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(tmp_path: Path) -> None:
    """As docs/index.md says, with an executable serl on the PATH."""
    program = tmp_path / "serl"
    program.write_text(f"#!{sys.executable}\nfrom serl.cli import main\nmain()\n")
    program.chmod(0o755)
    line = 'eval "$(_SERL_COMPLETE=bash_source serl)"; COMP_WORDS=(serl simulate sm) COMP_CWORD=2; _serl_completion serl; echo "${COMPREPLY[@]}"'
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.stdout == "small\n", done.stderr
