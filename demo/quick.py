"""The quick demo: an exchange in lockstep, a replayed day, and an executor."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from serl.clients.processes import child
from serl.demo.source import Source
from serl.exchange.ports import free_port


def run(source: Source, speed: str, output: Path) -> Iterator[str]:
    """Run the demo on a day; yields its output line by line. speed: max (lockstep) or a multiple of real time."""
    day, order = str(source.day), source.order
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    clock = ("lockstep", "--participants", "2") if speed == "max" else (f"scaled:{speed}", "--hold")
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        # our own folder, so it is removed even if the exchange is killed
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="serl-demo-")))

        def start(name: str, *arguments: str, until: str) -> list[str]:
            return stack.enter_context(child(folder, name, *arguments)).wait_for_line(until)

        yield from start(
            "exchange", "exchange", "start", "--symbols", source.symbols, "--endpoint", endpoint, "--journal", str(folder / "journal"),
            "--clock", *clock, until="  journal",
        )  # fmt: skip
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
