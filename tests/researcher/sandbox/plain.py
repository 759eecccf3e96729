"""Attacks without the sandbox: the same job in an ordinary process of ours, in a folder of its own, to show that it reaches its goal there."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serl.researcher.sandbox.boot import ANSWER
from serl.researcher.sandbox.limits import MIB
from serl.researcher.sandbox.usage import usage_of

WAIT_S = 3.0
"""How long an attack may go on: longer than the sandbox lets it."""
CPU_S = 1.6
"""CPU time after which an attack is stopped: more than the sandbox gives."""
SAFE = {resource.RLIMIT_AS: 3072 * MIB, resource.RLIMIT_FSIZE: 128 * MIB, resource.RLIMIT_CORE: 0}
"""Limits of ours, above those of the sandbox, so that nothing happens to the machine."""
RUNNER = (
    "import json, sys\nfrom serl.researcher.sandbox.boot import ANSWER, run_request\n"
    "text = run_request(json.loads(sys.stdin.read()))\nopen(ANSWER, 'w').write(text)\n"
    "open('../peak', 'w').write(open('/proc/self/status').read())"
)
OUTPUT_BYTES_MAX = 4 * MIB


@dataclass(frozen=True)
class Plain:
    """What an attack did without the sandbox."""

    folder: Path
    code: int | None
    """Its exit status; None if it was stopped."""
    output_bytes: int
    memory_bytes: int
    """Largest address space."""
    threads: int
    cpu_s: float
    received: bool
    """Whether it reached a socket outside."""
    changed: bool
    """Whether it changed a file outside, or killed a process."""

    @property
    def answer(self) -> Any:
        """Its answer as one reads it who trusts it."""
        return json.loads((self.folder / ANSWER).read_text())

    @property
    def text(self) -> str:
        """The error that it ended with; empty without one."""
        return "" if self.code is None or self.answer["outcome"] == "ok" else str(self.answer["text"])


Proof = Callable[[Plain], bool]
"""Whether an attack reached its goal."""


def ended(plain: Plain) -> bool:
    """It could do everything it wanted."""
    return plain.code == 0 and plain.answer["outcome"] == "ok"


def demanded(plain: Plain) -> bool:
    """It demands that it be stopped, and was not."""
    return plain.text.startswith("AssertionError")


def went_on(plain: Plain) -> bool:
    """It never ended."""
    return plain.code is None


def died(number: signal.Signals) -> Proof:
    """A signal ended it."""
    return lambda plain: plain.code == -number


def ran(source: str, folder: Path, outside: Any, wait_s: float = WAIT_S, cpu_s_max: float = CPU_S) -> Plain:
    """Run an attack to its end, for wait_s or cpu_s_max, or until it printed OUTPUT_BYTES_MAX."""
    request = json.dumps({"entry": "serl.researcher.sandbox.entrypoints:execute", "arguments": {"source": source}, "compiled": False})  # fmt: skip
    before, memory_bytes, threads, cpu_s = outside.hash(), 0, 0, 0.0
    output = folder.with_name("output")
    with open(output, "wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-c", RUNNER], stdin=subprocess.PIPE, stdout=written, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True,
            preexec_fn=_limit, pass_fds=(outside.inherited,), env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(request.encode())
        process.stdin.close()
        began_s = time.monotonic()
        while (
            process.poll() is None and time.monotonic() - began_s < wait_s and cpu_s < cpu_s_max
            and output.stat().st_size < OUTPUT_BYTES_MAX
        ):  # fmt: skip
            if used := usage_of(process.pid):
                threads, cpu_s = max(threads, used.threads), used.cpu_s
                memory_bytes = max(memory_bytes, _address_space(process.pid))
            time.sleep(0.01)
        code = process.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    memory_bytes = max(memory_bytes, _peak(folder.parent / "peak"))
    changed = outside.hash() != before or outside.victim.poll() is not None
    return Plain(folder, code, output.stat().st_size, memory_bytes, threads, cpu_s, bool(outside.received()), changed)


def _limit() -> None:
    for number, value in SAFE.items():
        resource.setrlimit(number, (value, resource.getrlimit(number)[1]))


def _address_space(process: int) -> int:
    """Bytes of a process's address space, 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def _peak(status: Path) -> int:
    """Largest address space by a copy of /proc/PID/status, 0 without one."""
    found = re.search(r"VmPeak:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0
