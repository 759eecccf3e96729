"""The report of a demo: an HTML page with the executions and the research, and the same as JSON."""

import json
from html import escape
from pathlib import Path
from typing import Any

from serl.agents.execution.metrics import IS_MEANING
from serl.agents.pages.origin import current_origin
from serl.agents.pages.page import cell, page, png, table, write
from serl.clients.processes import ProcessFailed
from serl.demo.full import Plan, Scene

FIGURES = {
    "policy": "policy", "PA_bps": "PA, bps", "IS_bps": "IS, bps", "participation": "participation", "filled_lots": "filled, lots",
    "fills": "fills",
}  # fmt: skip


def write_report(scene: Scene) -> Path:
    """Write the report of the executions and of the research, if any, as far as they are finished. Returns the path of the page."""
    plan = scene.plan
    found = {name: _execution(plan.output / name) for name in scene.executed}
    numbers: dict[str, Any] = {"executions": {name: summary for name, (summary, _) in found.items()}}
    parts = ["<h2>Executions</h2>", table(list(FIGURES.values()), [_row(summary) for summary, _ in found.values()])]
    parts.append(
        f"<p>IS: {IS_MEANING}. Each row is one parent order, at its own time of the day: too little to compare the policies or to give intervals. "
        "<code>serl evaluate</code> compares policies.</p>"
    )
    parts += [png(picture.read_bytes(), f"{name}: prices, fills, and progress") for name, (_, picture) in found.items()]
    if plan.researcher:
        numbers["research"], text = _research(scene)
        parts += ["<h2>Research</h2>", text]
    origin = current_origin(plan.source.data, plan.source.seed)
    written, _ = write(
        plan.output / "demo.html", page("serl demo", origin, parts), {"made": origin.to_json()} | numbers
    )
    return written


def _execution(folder: Path) -> tuple[dict[str, Any], Path]:
    """The summary and the plot of the only report in a folder."""
    (path,) = folder.glob("*.json")
    summary: dict[str, Any] = json.loads(path.read_text())["summary"]
    return summary, path.with_suffix(".png")


def _row(summary: dict[str, Any]) -> list[str]:
    return [escape(cell(summary[name])) for name in FIGURES]


def _research(scene: Scene) -> tuple[dict[str, Any], str]:
    """The figures of the research so far, and their text for the page."""
    if scene.research_failure is not None:
        return _failed(scene.research_failure)
    if not scene.research_ended:
        return {
            "ended": False
        }, "<p>The researcher is still running. This report is written again when it has ended.</p>"
    return _found(scene.plan)


def _found(plan: Plan) -> tuple[dict[str, Any], str]:
    """Figures of the research run, and a table with a link to its own report."""
    from serl.researcher.outer.report import write_report as research_report

    path = plan.output / "research.html"
    found = research_report(plan.research, path)
    rows = [
        [str(row["iteration"]), *(cell(row[name]) for name in ("pa_bps", "low_bps", "high_bps", "twap_bps"))]
        for row in found["iterations"]
    ]
    text = table(["iteration", "PA of the best, bps", "low", "high", "TWAP on the same orders"], rows)
    return {
        "iterations": found["iterations"],
        "best": found["best"],
    }, text + f'<p><a href="{path.name}">The report of the research</a></p>'


def _failed(error: ProcessFailed) -> tuple[dict[str, Any], str]:
    """The failure of the researcher."""
    return {"failed": str(error)}, f"<p>The researcher failed: {escape(str(error))}</p>"
