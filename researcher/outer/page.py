"""The HTML page of a report: one file with embedded figures."""

import io
import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from serl.agents.pages.origin import Origin
from serl.agents.pages.page import cell, table
from serl.agents.pages.page import page as html_page
from serl.agents.pages.picture import new_figure
from serl.researcher.candidates import NUMBERS_OF_ORDERS
from serl.researcher.outer.ablations import Ablation, table_row
from serl.researcher.outer.final import final_line

RACE_ROWS = 30
ITERATIONS = (
    "The figures are those of each iteration's best candidate after all of its trainings until now; ema_bps and change_bps are those that were known "
    "when the iteration ended. best_so_far_bps is the PA of the candidate that is best among all until then."
)


def page(found: dict[str, Any], origin: Origin) -> str:
    """The summary of a run as an HTML page."""
    ended = f"Ended: {found['stopped']}." if found["stopped"] else "The run has not ended."
    parts = [
        f"<p>{escape(ended)} All scores are on days that were left out of training; none of these is a test day{'' if found['test'] is None else ', except the one labelled test'}."
        "</p>",
        *_best(found["best"], found["test"]),
        *_race(found["race"], found["incumbent"]),
        "<h2>PA by iteration</h2>", curve(found["iterations"]),
        "<h2>Valid modules</h2><p>By model; the first row is the untuned model.</p>", _table(found["valid"]),
        "<h2>Operators</h2><p>The operators that made the candidates: attempts, candidates, and their difference to the best candidate at that time.</p>", _table(found["operators"]),
        *_signals(found["signals"]),
        "<h2>Verdicts</h2><p>Every answer and every evaluation, by stage, reason and model.</p>", _table(found["verdicts"]),
        *_ablations(found["ablations"]),
        f"<h2>Iterations</h2><p>{ITERATIONS}</p>", _table([{**row, "tuning": _short(row["tuning"])} for row in found["iterations"]]),
        f"<details><summary>Settings</summary><pre>{escape(json.dumps(found['config'], indent=1))}</pre></details>",
    ]  # fmt: skip
    return html_page(found["name"], origin, parts)


def _ablations(rows: Sequence[dict[str, Any]] | None) -> Iterable[str]:
    if rows is None:
        return []
    text = "Methods with equal budgets on the same days: means over tasks and seeds with 95 % intervals, on days that no run has seen."
    return ["<h2>Ablations</h2>", f"<p>{text}</p>", _table([table_row(Ablation.model_validate(row)) for row in rows])]


def _signals(rows: Sequence[dict[str, Any]]) -> Iterable[str]:
    if not rows:
        return []
    text = "By how much the price improves for an order until the mean of the rest of its window, for one standard deviation more of an observation; on training days."
    return ["<h2>Signals</h2>", f"<p>{text}</p>", _table(rows)]


def _race(rows: Sequence[dict[str, Any]], incumbent: dict[str, str]) -> Iterable[str]:
    if not rows:
        return []
    known = (
        ", ".join(f"{kind} <code>{escape(text)}</code>" for kind, text in incumbent.items()) or "the default algorithm"
    )
    text = (
        f"Candidates against the incumbent, which is {known}: PA of the candidate minus PA of the incumbent on the same orders, days and training seeds, "
        "with its 95 % interval. The best candidate is the one whose interval has the highest lower end. A candidate with a single training gets the spread between trainings from the others."
    )
    left = len(rows) - RACE_ROWS
    more = f"<p>{left} more are in the JSON.</p>" if left > 0 else ""
    return ["<h2>Race</h2>", f"<p>{text}</p>", _table(rows[:RACE_ROWS]), more]


def _best(best: dict[str, Any] | None, test: dict[str, Any] | None) -> Iterable[str]:
    if best is None:
        return ["<h2>Best algorithm</h2><p>No candidate has a score.</p>"]
    scores = [{"part": "selection", **_score(best["score"])}]
    if test is not None:
        scores.append({"part": f"test (iteration {test['iteration']}, slot {test['slot']})", **_score(test["score"])})
        if "incumbent" in test:
            scores.append({"part": "test, incumbent", **_score(test["incumbent"])})
    ancestors = ", ".join(f"{row['iteration']}/{row['slot']}" for row in best["lineage"]) or "none"
    parts = [
        "<h2>Best algorithm</h2>",
        f"<p>Iteration {best['iteration']}, slot {best['slot']}; ancestors (iteration/slot): {ancestors}. Policy: <code>{escape(str(best['policy']))}</code></p>",
        _table(scores),
    ]
    if best["paired"]:
        parts.append(f"<p>Against the incumbent, on the days of selection:</p>{_table([best['paired']])}")
    if test is not None:
        parts.append(f"<p>Test part, opened once: {escape(final_line(test))}.</p>")
    for kind, module in best["modules"].items():
        parts.append(f"<h3>{escape(kind)} ({module['form']})</h3><pre>{escape(module['text'])}</pre>")
    return parts


def _score(score: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in score.items() if name not in NUMBERS_OF_ORDERS}
    return found | {"twap_bps": score.get("twap_bps")}  # scores of earlier versions lack it


def _short(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {cell(value)}" for name, value in facts.items() if value is not None)


def _table(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "<p>None.</p>"
    return table(
        [escape(name) for name in rows[0]],
        [[escape(cell(value)) for value in row.values()] for row in rows],
        text=True,
    )


def curve(rows: Sequence[dict[str, Any]]) -> str:
    """An SVG of each iteration's best PA with its 95 % interval, PA of a TWAP on the same orders, the running mean, and the best so far."""
    scored = [row for row in rows if row["pa_bps"] is not None]
    if not scored:
        return "<p>No iteration has a score.</p>"
    steps, pa = [row["iteration"] for row in scored], [row["pa_bps"] for row in scored]
    figure = new_figure(8, 3.5)
    axes = figure.subplots()
    axes.vlines(steps, [row["low_bps"] for row in scored], [row["high_bps"] for row in scored], color="0.6")
    axes.plot(steps, pa, "o", label="best of the iteration, 95 % interval")
    if beside := [(row["iteration"], row["twap_bps"]) for row in scored if row["twap_bps"] is not None]:
        axes.plot(*zip(*beside, strict=True), "s:", color="0.3", markersize=4, label="TWAP on the same orders")
    axes.plot(steps, [row["ema_bps"] for row in scored], "-", label="running mean")
    axes.step(steps, [row["best_so_far_bps"] for row in scored], "--", where="post", label="best so far")
    axes.set(xlabel="iteration", ylabel="PA, bps")
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
