"""`serl doctor` reports the checks of this machine, with advice."""

import json
import os
import re
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from serl import doctor
from serl.cli_doctor import doctor as command
from serl.cli_doctor import show
from serl.doctor import Finding
from serl.exchange import config
from serl.exchange.errors import SerlError
from serl.exchange.ports import listening_process, port_is_free

FINDINGS = [
    Finding("python", "ok", "3.11.7 (/a/long/path/to/some/interpreter)"),
    Finding("extra x", "optional", "missing: torch [cpu]", "pip install -e '.[x]'"),
]


@pytest.fixture
def two_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECKS", (lambda: iter(FINDINGS), doctor.disk))


@pytest.mark.long
def test_json_output_has_the_checks_of_this_machine() -> None:
    done = subprocess.run([sys.executable, "-m", "serl", "doctor", "--json"], capture_output=True, text=True)
    report = json.loads(done.stdout)
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert states["python"] == states["libzmq"] == states["packages"] == "ok", "these tests need them"
    assert {"numba cache", "sandbox", "model tiny", "chromium", "gpu"} <= set(states)
    assert {"ports 5570-5573", "port 8700", "disk here"} <= set(states)
    assert all(check["advice"] for check in report["checks"] if check["state"] != "ok")
    assert done.returncode == (0 if report["ok"] else 1)


@pytest.mark.parametrize("package", ["packaging", "pydantic", "numba"])
def test_a_missing_base_package_is_a_finding(package: str) -> None:
    hidden = f"import sys; sys.modules[{package!r}] = None; from serl.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", hidden, "doctor"], capture_output=True, text=True)
    assert done.stderr == "" and "port 8700" in done.stdout
    assert done.returncode == 1 and re.search(f"!! .*{package}.* -> in serl's clone: pip install -e .", done.stdout)


@pytest.mark.usefixtures("two_checks")
def test_without_rich_every_check_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert len(CliRunner().invoke(command).stdout.splitlines()) == 4


@pytest.mark.usefixtures("two_checks")
def test_without_a_terminal_every_check_is_a_line() -> None:
    lines = CliRunner().invoke(command).stdout.splitlines()
    assert lines[1] == "-- extra x: missing: torch [cpu] -> pip install -e '.[x]'"
    assert len(lines) == 4


@pytest.mark.parametrize(("columns", "table"), [(24, False), (100, True)])
def test_terminals_of_any_width(
    columns: int, table: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    show(FINDINGS)
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, text.splitlines())) <= columns
    assert ("what to do" in text) == table
    assert ".[x]" in text


def test_a_broken_check_gives_exit_status_1_and_the_others_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> None:
        raise SerlError("no four free ports in a row")

    monkeypatch.setattr(doctor, "CHECKS", (failing, lambda: iter(FINDINGS)))
    result = CliRunner().invoke(command)
    assert result.exit_code == 1
    assert result.stdout.startswith("!! failing: SerlError: no four free ports") and "extra x" in result.stdout


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["numpy", "numpy>=1", "nosuchpackage>=2", "numpy>=1000; extra == 'learning'", "x; python_version < '3'"]
    monkeypatch.setattr(metadata, "requires", lambda _name: wanted)
    first, *extras = doctor.packages()
    assert (first.state, first.found) == ("broken", "missing: nosuchpackage")
    (learning,) = [one for one in extras if one.name == "extra learning"]
    assert learning.state == "optional" and learning.found.startswith("missing: numpy>=1000 (is ")
    assert learning.advice == "in serl's clone: pip install -e '.[learning]'"


def test_a_port_in_use_is_reported_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert not port_is_free(port)
        if sys.platform == "linux":
            assert f"(process {os.getpid()})" in (listening_process(port) or "")
        monkeypatch.setattr(
            config, "load_config", lambda: type("Config", (), {"endpoint": f"tcp://127.0.0.1:{port}"})()
        )
        monkeypatch.setattr(doctor, "PORT", port)
        for found, option in zip(
            (*doctor.ports(), *doctor.page_port()), ("--endpoint tcp://127.0.0.1:", "--port "), strict=True
        ):
            assert found.state == "optional" and f"{port} by " in found.found
            assert option in found.advice
    assert port_is_free(port) and listening_process(port) is None


def test_an_incomplete_model_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERL_MODELS", str(tmp_path))
    tiny, _ = doctor.models()
    assert tiny.state == "optional" and "serl llm fetch tiny" in tiny.advice
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"half")
    tiny, _ = doctor.models()
    assert tiny.state == "optional" and "has 4 bytes" in tiny.found


def test_a_machine_without_a_writable_cache_is_broken() -> None:
    code = (
        "from numba.core import caching; caching.CompileResultCacheImpl._locator_classes = []\n"
        "from serl.doctor import compiled_code\n"
        "print([(one.state, one.advice) for one in compiled_code()])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("[('broken', 'set NUMBA_CACHE_DIR"), done.stderr[-500:]
