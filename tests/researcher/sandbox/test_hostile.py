"""Attacks: each ends in the expected outcome, and nothing outside its folder changes."""

import hashlib
import os
import platform
import socket
from collections import ChainMap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from serl.researcher.sandbox import bubblewrap
from serl.researcher.sandbox.job_result import Outcome
from serl.researcher.sandbox.limits import MIB, Limits
from serl.researcher.sandbox.run import Job, run, work_folder
from tests.researcher.sandbox.hostile import CALL, EVERY, LEAK, Hostile
from tests.researcher.sandbox.processes import processes_of

LIMITS = Limits(wall_s=30, cpu_s=20, memory_bytes=1536 * MIB, file_bytes=16 * MIB, folder_bytes=64 * MIB, threads=32)


NEVER_ENDING: dict[Outcome, dict[str, float]] = {Outcome.TIMEOUT: {"wall_s": 1.5}, Outcome.CPU: {"cpu_s": 1}}
"""Limits of attacks that end only by a limit."""


@dataclass(frozen=True)
class Outside:
    """Files and sockets that no job may touch."""

    canary: Path
    path: Path
    sockets: tuple[socket.socket, ...]

    @property
    def port(self) -> int:
        return int(self.sockets[0].getsockname()[1])

    def hash(self) -> str:
        """Of names, permissions and contents."""
        digest = hashlib.sha256()
        for path in sorted(self.canary.rglob("*")):
            digest.update(f"{path}{path.lstat().st_mode}".encode())
            digest.update(path.read_bytes() if path.is_file() else b"")
        return digest.hexdigest()

    def received(self) -> list[str]:
        """The sockets that received something."""
        addresses = []
        for each in self.sockets:
            try:
                each.recv(1) if each.type == socket.SOCK_DGRAM else each.accept()
            except BlockingIOError:
                continue
            addresses.append(str(each.getsockname()))
        return addresses


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    canary = tmp_path_factory.mktemp("canary")
    (canary / "secret").write_text("secret")
    (canary / "scores.db").write_bytes(b"scores")
    tcp, udp, unix, abstract = (
        socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX),
    )  # fmt: skip
    tcp.bind(("127.0.0.1", 0))
    udp.bind(tcp.getsockname())
    path = tmp_path_factory.mktemp("socket") / "s"
    unix.bind(str(path))
    abstract.bind(f"\0serl-canary-{tcp.getsockname()[1]}")  # another process may run these tests too
    sockets = (tcp, udp, unix, abstract)
    for each in sockets:
        each.setblocking(False)
        if each is not udp:
            each.listen()
    yield Outside(canary, path, sockets)
    for each in sockets:
        each.close()


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("hostile", EVERY, ids=lambda hostile: hostile.name.replace(" ", "_"))
def test_attacks_end_in_their_outcome_and_change_nothing(
    hostile: Hostile, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hostile.source.startswith(CALL) and platform.machine() != "x86_64":
        pytest.skip("system calls by number are those of x86_64")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    source = hostile.source
    for name, value in (("canary", outside.canary), ("port", outside.port), ("path", outside.path)):
        source = source.replace(f"{{{name}}}", str(value))
    changes: list[dict[str, float]] = [
        dict(change) for outcome, change in NEVER_ENDING.items() if outcome is hostile.outcome
    ]
    if hostile.outcome is Outcome.MEMORY and "torch" not in hostile.source:
        changes.append({"memory_bytes": 512 * MIB})
    limits = LIMITS.model_copy(update=ChainMap(*changes))
    before = outside.hash()
    with work_folder() as folder:
        result = run(
            Job("serl.researcher.sandbox.entrypoints:execute", {"source": source}),
            folder,
            limits,
        )
        assert not processes_of(folder)
    assert not folder.exists()
    assert result.outcome is hostile.outcome, result
    assert hostile.text in result.text
    assert result.ok or result.text
    assert outside.hash() == before
    assert not outside.received()


@pytest.mark.usefixtures("sandboxed")
def test_the_search_for_secrets_finds_them_where_bubblewrap_inherits_our_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setattr(bubblewrap, "ENVIRONMENT", dict(os.environ))
    with work_folder() as folder:
        result = run(Job("serl.researcher.sandbox.entrypoints:execute", {"source": LEAK.source}), folder, LIMITS)
    assert result.outcome is Outcome.CRASHED
    assert "'/proc/1/environ', '/proc/1/task/1/environ'" in result.text


def test_there_are_enough_attacks() -> None:
    assert len({hostile.name for hostile in EVERY}) == len(EVERY) >= 30


def test_crashes_say_why() -> None:
    assert [hostile.name for hostile in EVERY if hostile.outcome is Outcome.CRASHED and not hostile.text] == []
