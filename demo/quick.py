"""The quick demo: an exchange in lockstep, a replayed day, and an executor."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from serl.clients.processes import child
from serl.demo.source import Source
from serl.exchange.code_cache import is_kept
from serl.exchange.ports import free_port


def run(source: Source, speed: str, output: Path) -> Iterator[str]:
    """Run the demo on a day; yields its output line by line. speed: max (lockstep) or a multiple of real time."""
    day, order = str(source.day), source.order
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    clock = ("lockstep", "--participants", "2") if speed == "max" else (f"scaled:{speed}", "--hold")
    began, is_new = time.perf_counter(), not is_kept("book")
    with contextlib.ExitStack() as stack:
        # a folder of our own, so that it is removed even if the exchange is killed
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="serl-demo-")))
        exchange = stack.enter_context(child(
            folder, "exchange", "exchange", "start", "--symbols", source.symbols, "--endpoint", endpoint, "--journal", str(folder / "journal"),
            "--clock", *clock,
        ))  # fmt: skip
        if is_new:
            yield "compiling, which the first start on a machine does"
            _compile_benchmark(source)
        yield from exchange.wait_for_line("  journal")
        executor = stack.enter_context(
            child(folder, "executor", "execute", "twap", *order.options, "--connect", endpoint, "--day", day, "--report", str(output))
        )  # fmt: skip
        greeting = executor.wait_for_line("executor")
        yield from greeting
        replayer = stack.enter_context(
            child(
                folder, "replay", "replay", day, "--connect", endpoint, "--wait-for", "1", "--to", order.replayed_to,
                "--speed", speed,
            )
        )  # fmt: skip
        yield f"replaying up to {order.replayed_to} at {'full speed, in lockstep' if speed == 'max' else speed + ' x'} ..."
        yield "\n".join(executor.wait().splitlines()[len(greeting) :])
        if speed == "max":
            yield replayer.wait()
    yield f"done in {time.perf_counter() - began:.1f} s"


def _compile_benchmark(source: Source) -> None:
    """Compiles what the executor will need while the exchange compiles what it needs. Both are cached on disk."""
    from serl.agents.execution.inprocess import replay_with, replay_with_twap
    from serl.agents.execution.policies.schedules import Twap
    from serl.history.day import read_day

    assert source.day is not None
    day, order = read_day(source.day), source.order.parent
    replay_with(day, order, Twap(), "market")
    replay_with_twap(day, order)
