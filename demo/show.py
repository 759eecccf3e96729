"""Terminal output of the demo: lines of progress and, on a terminal, a live price ladder below them."""

import contextlib
import os
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from serl.clients.processes import Child
from serl.demo.full import Plan, Scene
from serl.demo.report import write_report

FRAMES_PER_S = 4
COLUMNS_MIN = 40
"""Narrower terminals do not show the ladder."""


def show(plan: Plan) -> None:
    """Run the demo and print its progress; with a dashboard, stay until Ctrl-C. Raises ProcessFailed at the end if the researcher failed."""
    console, began = Console(), time.perf_counter()
    os.environ["COLUMNS"] = str(console.width)  # child processes print tables to files that this terminal shows

    def print_line(line: str) -> None:
        console.print(Text(f"{time.perf_counter() - began:6.1f} s  {line}"), soft_wrap=True)

    with contextlib.ExitStack() as stack:
        scene = Scene(plan, stack)
        live = stack.enter_context(_live(console))
        reported = 0
        for line in scene.run():
            if line is not None:
                print_line(line)
            if live is not None:
                live.update(_view(scene))
            if plan.researcher and len(scene.executed) > reported == 0:
                reported = len(scene.executed)
                print_line(f"the report so far: {write_report(scene)}")
        path = write_report(scene)
        print_line(f"report: {path} and {path.with_suffix('.json')}")
        if plan.dashboard_port is not None:
            print_line("the market and its page keep running; Ctrl-C stops them")
            _stay(scene, live)
    if scene.research_failure is not None:
        raise scene.research_failure


def _stay(scene: Scene, live: Live | None) -> None:
    """Keep the demo running until Ctrl-C, which from here on is the regular way to end it."""
    with contextlib.suppress(KeyboardInterrupt):
        for _ in scene.stay():
            if live is not None:
                live.update(_view(scene))


def _live(console: Console) -> "contextlib.AbstractContextManager[Live | None]":
    if console.is_terminal and console.width >= COLUMNS_MIN:
        return Live(console=console, refresh_per_second=FRAMES_PER_S, transient=True)
    return contextlib.nullcontext()


def _view(scene: Scene) -> RenderableType:
    """The ladder, and a status line for each running process."""
    if scene.watcher is None:
        return Text("")
    running = [one for one in scene.children.values() if not one.exited]
    lines = [Text(f"{one.name:10} {_status(scene, one)}", overflow="ellipsis", no_wrap=True) for one in running]
    return Group(scene.watcher.table(), *lines)


def _status(scene: Scene, one: Child) -> str:
    """Progress of an execution; the last output line of another process."""
    if one.name in scene.executions:
        return f"{scene.executions[one.name].as_json()['filled_lots']:,} of {scene.plan.order.qty_lots:,} lots"
    lines = one.output.splitlines()
    return lines[-1].strip() if lines else ""
