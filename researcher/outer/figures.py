"""Figures from a run's database that both the report and the dashboard page show."""

import json
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

Query = Callable[[str], Iterable[sqlite3.Row]]


def iterations(query: Query) -> list[dict[str, Any]]:
    """One row per finished iteration: PA of its best candidate with interval, PA_ema, best PA so far, figures of tuning."""
    scored = query("SELECT iteration, score FROM candidates WHERE stage = 'done' ORDER BY pa_bps, slot DESC")
    best = {
        row["iteration"]: json.loads(row["score"]) for row in scored
    }  # sorted by PA, so the last row of an iteration is its best
    rows, so_far = [], None
    for row in query("SELECT * FROM iterations ORDER BY iteration"):
        score = best.get(row["iteration"], {})
        if score and (so_far is None or score["pa_bps"] > so_far):
            so_far = score["pa_bps"]
        rows.append(
            {name: row[name] for name in ("iteration", "model", "pa_bps", "ema_bps", "change_bps", "seconds")}
            | {"low_bps": score.get("low_bps"), "high_bps": score.get("high_bps"), "best_so_far_bps": so_far, "tuning": json.loads(row["facts"])}
        )  # fmt: skip
    return rows
