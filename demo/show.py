"""The demo on a terminal: what happens in lines, and below them, where there is a terminal, the market as it moves."""

import contextlib
import os
import time

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from serl.clients.processes import Child
from serl.demo.full import Plan, Scene
from serl.demo.report import write_report

FRAMES_PER_S = 4
NARROW = 40
"""Columns; in fewer the ladder has no place."""


def show(plan: Plan) -> None:
    """Runs the demo and says how it goes; ProcessFailed if its researcher failed, after the report of the rest."""
    console, began = Console(), time.perf_counter()
    os.environ["COLUMNS"] = str(
        console.width
    )  # the tables of our children go to files, and from there to this terminal
    with contextlib.ExitStack() as stack:
        scene = Scene(plan, stack)
        live = stack.enter_context(_live(console))
        for line in scene.run():
            if line is not None:
                console.print(Text(f"{time.perf_counter() - began:6.1f} s  {line}"), soft_wrap=True)
            if live is not None:
                live.update(_view(scene))
    path = write_report(scene)
    click.echo(f"report: {path} and {path.with_suffix('.json')}, {time.perf_counter() - began:.0f} s in all")
    if scene.unresearched is not None:
        raise scene.unresearched


def _live(console: Console) -> "contextlib.AbstractContextManager[Live | None]":
    if console.is_terminal and console.width >= NARROW:
        return Live(console=console, refresh_per_second=FRAMES_PER_S, transient=True)
    return contextlib.nullcontext()


def _view(scene: Scene) -> RenderableType:
    """The ladder, and the last words of those that work."""
    if scene.watcher is None:
        return Text("")
    at_work = [one for one in scene.children.values() if not one.exited]
    words = [Text(f"{one.name:10} {_words(scene, one)}", overflow="ellipsis", no_wrap=True) for one in at_work]
    return Group(scene.watcher.table(), *words)


def _words(scene: Scene, one: Child) -> str:
    """How far an execution is; what others said last."""
    if one.name in scene.executions:
        return f"{scene.executions[one.name].as_json()['filled_lots']:,} of {scene.plan.order.qty_lots:,} lots"
    lines = one.output.splitlines()
    return lines[-1].strip() if lines else ""
