"""Attacks: each reaches its goal in an ordinary process, and in the sandbox ends in its one outcome without changing anything outside."""

import hashlib
import itertools
import os
import platform
import socket
import sqlite3
import subprocess
from collections import ChainMap
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from serl.researcher.sandbox import bubblewrap
from serl.researcher.sandbox import run as sandbox_run
from serl.researcher.sandbox.job_result import JobResult, Outcome
from serl.researcher.sandbox.limits import MIB, Limits
from serl.researcher.sandbox.run import Job, run, work_folder
from tests.researcher.sandbox import plain
from tests.researcher.sandbox.hostile import CALL, FILES, LEAK, NETWORK, PROCESSES, Hostile
from tests.researcher.sandbox.hostile_resources import (
    ANSWERS,
    FILE_BYTES,
    FOLDER_BYTES,
    MEMORY_AND_DISK,
    MEMORY_BYTES,
    OUTPUT_BYTES,
    TIME,
)

EVERY = [*FILES, *NETWORK, *PROCESSES, *TIME, *MEMORY_AND_DISK, *ANSWERS]
LIMITS = Limits(
    wall_s=30, cpu_s=20, memory_bytes=1536 * MIB, file_bytes=FILE_BYTES, folder_bytes=FOLDER_BYTES, output_bytes=OUTPUT_BYTES, threads=32
)  # fmt: skip
NEVER_ENDING: dict[Outcome, dict[str, float]] = {Outcome.TIMEOUT: {"wall_s": 0.8}, Outcome.CPU: {"cpu_s": 1}}
"""Limits of attacks that end only by a limit."""
EXECUTE = "serl.researcher.sandbox.entrypoints:execute"


@dataclass(frozen=True)
class Outside:
    """Files, sockets and a process that no job may touch."""

    canary: Path
    path: Path
    sockets: tuple[socket.socket, ...]
    victim: "subprocess.Popen[bytes]"
    inherited: int
    """A descriptor that programs inherit which do not close theirs."""

    @property
    def port(self) -> int:
        return int(self.sockets[0].getsockname()[1])

    def fill(self, source: str) -> str:
        """A module with the names of all that in place of {..}."""
        values = {"canary": self.canary, "root": self.canary.parent, "port": self.port, "path": self.path, "victim": self.victim.pid}  # fmt: skip
        for name, value in values.items():
            source = source.replace(f"{{{name}}}", str(value))
        return source

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
                each.recv(1) if each.type == socket.SOCK_DGRAM else each.accept()[0].close()
            except BlockingIOError:
                continue
            addresses.append(str(each.getsockname()))
        return addresses


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    canary = tmp_path / "outside" / "canary"
    canary.mkdir(parents=True)
    (canary / "secret").write_text("secret")
    (canary / "day").write_text("day")
    (canary / "answer").write_text('{"value": "secret"}')
    with closing(sqlite3.connect(canary / "scores.db")) as scores, scores:
        scores.execute("create table scores as select 7 as pa")
    tcp, udp, unix, abstract = (
        socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX),
    )  # fmt: skip
    tcp.bind(("127.0.0.1", 0))
    udp.bind(tcp.getsockname())
    path = tmp_path / "s"
    unix.bind(str(path))
    abstract.bind(f"\0serl-canary-{tcp.getsockname()[1]}")  # another process may run these tests too
    sockets = (tcp, udp, unix, abstract)
    for each in sockets:
        each.setblocking(False)
        if each is not udp:
            each.listen()
    inherited = os.open(canary / "secret", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    with subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL) as victim:
        yield Outside(canary, path, sockets, victim, inherited)
        victim.kill()
    for each in sockets:
        each.close()
    os.close(inherited)


@pytest.fixture
def namespaces(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The pid namespaces of the jobs that run. They stay open: the kernel gives the number of a closed one to the next, a job of another test."""
    found: list[str] = []
    await_init = sandbox_run._await_init

    with ExitStack() as opened:

        def noting(*arguments: Any) -> Any:
            job = await_init(*arguments)
            namespace = f"/proc/{job.init}/ns/pid"
            opened.enter_context(open(namespace, "rb"))
            found.append(os.readlink(namespace))
            return job

        monkeypatch.setattr(sandbox_run, "_await_init", noting)
        yield found


def processes_in(namespaces: list[str]) -> list[str]:
    """Running processes of these pid namespaces."""
    found = []
    for path in Path("/proc").glob("[0-9]*/ns/pid"):
        try:
            found += [path.parent.parent.name] if os.readlink(path) in namespaces else []
        except OSError:
            continue
    return found


def limits_for(hostile: Hostile) -> Limits:
    changes: list[dict[str, float]] = [dict(change) for outcome, change in NEVER_ENDING.items() if outcome is hostile.outcome]  # fmt: skip
    if hostile.outcome is Outcome.MEMORY and "torch" not in hostile.source:
        changes.append({"memory_bytes": MEMORY_BYTES})
    return LIMITS.model_copy(update=ChainMap(*changes))


def require_machine(hostile: Hostile) -> None:
    if hostile.source.startswith(CALL) and platform.machine() != "x86_64":
        pytest.skip("system calls by number are those of x86_64")


SLOW_INSIDE = ("remove everything", "memory bomb of torch")
"""The first looks at every file of the machine: what others write to, or remove, is read-only for it too. The second only imports torch before it
does what the memory bomb of numpy does."""


def judged() -> Iterator[Any]:
    """All attacks; `make test` waits for the end of every third of those that end only by a limit of time, and of none that is slow."""
    endless = itertools.count()
    for each in EVERY:
        slow = each.name in SLOW_INSIDE or (each.outcome in NEVER_ENDING and next(endless) % 3)
        yield pytest.param(each, marks=pytest.mark.long if slow else (), id=each.name.replace(" ", "_"))


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("hostile", list(judged()))
def test_attacks_end_in_their_outcome_and_change_nothing(
    hostile: Hostile, outside: Outside, namespaces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    require_machine(hostile)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    before = outside.hash()
    with work_folder() as folder:
        result = run(Job(EXECUTE, {"source": outside.fill(hostile.source)}), folder, limits_for(hostile))
        left = list(folder.iterdir())
        assert all(path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o777 == 0o600 for path in left)
    assert len(namespaces) == 1
    assert not processes_in(namespaces)
    assert not folder.exists()
    assert result.outcome is hostile.outcome, result
    assert hostile.text in result.text
    assert result.ok or result.text
    assert outside.hash() == before
    assert not outside.received()
    assert outside.victim.poll() is None


SLOW_OUTSIDE = "complain without end"


def proven() -> Iterator[Any]:
    """The attacks that can be tried without the sandbox; `make test` tries some of them, and none that is slow outside."""
    for number, each in enumerate(each for each in EVERY if each.proof):
        yield pytest.param(
            each, marks=() if number % 8 == 0 and each.name != SLOW_OUTSIDE else pytest.mark.long, id=each.name
        )


@pytest.mark.parametrize("hostile", list(proven()))
def test_attacks_reach_their_goal_without_the_sandbox(hostile: Hostile, outside: Outside, tmp_path: Path) -> None:
    require_machine(hostile)
    if hostile.as_root and os.getuid() != 0:
        pytest.skip("only root reaches this goal")
    assert hostile.proof is not None
    folder = tmp_path / "job" / "folder"
    folder.mkdir(parents=True)
    # a busy machine gives processor time late, and one with slow memory needs more of it
    wait_s = 60.0 if hostile.outcome in (Outcome.CPU, Outcome.MEMORY) else plain.WAIT_S
    cpu_s_max = 20.0 if hostile.outcome is Outcome.MEMORY else plain.CPU_S
    found = plain.ran(outside.fill(hostile.source), folder, outside, wait_s, cpu_s_max)
    Path(f"/dev/shm/serl-canary-{outside.port}").unlink(missing_ok=True)
    assert hostile.proof(found), found
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False)


def leak_in(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> JobResult:
    """The search for secrets in a job with an input whose path is one, without these words of bubblewrap's command line."""
    monkeypatch.setattr(bubblewrap, "ISOLATION", tuple(word for word in bubblewrap.ISOLATION if word not in words))
    secret = tmp_path / "sk-canary"
    secret.write_text("")
    with work_folder() as folder:
        return run(Job(EXECUTE, {"source": LEAK.source}, inputs={"mine": secret}), folder, LIMITS)


@pytest.mark.usefixtures("sandboxed")
def test_the_search_for_secrets_finds_them_where_bubblewrap_is_visible(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setattr(bubblewrap, "ENVIRONMENT", dict(os.environ))
    result = leak_in(("--as-pid-1",), monkeypatch, tmp_path)
    assert result.outcome is Outcome.CRASHED
    assert "'/proc/1/environ', '/proc/1/cmdline'" in result.text
    assert "'/proc/1/mem'" in result.text


@pytest.mark.usefixtures("sandboxed")
def test_only_mounts_name_the_inputs_of_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    result = leak_in((), monkeypatch, tmp_path)
    assert result.text.startswith("AssertionError: ['/proc/1/mountinfo', '/proc/1/task/1/mountinfo']")


def test_there_are_enough_attacks() -> None:
    assert len({hostile.name for hostile in EVERY}) == len(EVERY) > 100


def test_crashes_say_why() -> None:
    assert [hostile.name for hostile in EVERY if hostile.outcome is Outcome.CRASHED and not hostile.text] == []


def test_only_attacks_on_the_whole_machine_are_not_proven() -> None:
    unproven = {hostile.name for hostile in EVERY if hostile.proof is None}
    assert unproven == {"remove everything", "kill everybody", "kill the first process", "secrets of the host"}
