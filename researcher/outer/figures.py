"""Figures from a run's database that both the report and the dashboard page show."""

import json
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

Query = Callable[[str], Iterable[sqlite3.Row]]


def iterations(query: Query) -> list[dict[str, Any]]:
    """One row per finished iteration: PA of its best candidate with its interval, PA of a TWAP on the same orders, PA_ema, PA of the best
    candidate so far, figures of tuning. Candidates train further in later iterations: their PA is that of all trainings until now, whereas PA_ema is made from what
    was known at the end of each iteration."""
    best = _best_of_each(query)
    rows, leading = [], None
    for row in query("SELECT * FROM iterations ORDER BY iteration"):
        found = best.get(row["iteration"])
        if found and (leading is None or found[0] > leading[0]):
            leading = found
        score, paired = found[1] if found else ({}, {})
        so_far = leading[1][0]["pa_bps"] if leading else None
        rows.append(
            {name: row[name] for name in ("iteration", "model", "pa_bps", "ema_bps", "change_bps", "seconds")}
            | {"pa_bps": score.get("pa_bps"), "low_bps": score.get("low_bps"), "high_bps": score.get("high_bps"), "best_so_far_bps": so_far, "twap_bps": score.get("twap_bps")}
            | {name: paired.get(name) for name in ("difference_bps", "difference_low_bps", "difference_high_bps", "seeds")}
            | {"tuning": json.loads(row["facts"])}
        )  # fmt: skip
    return rows


def paired_of(row: sqlite3.Row) -> dict[str, Any]:
    """The paired score of a candidate's row, with the names of a table; empty for runs of earlier versions."""
    if "paired" not in row.keys() or not row["paired"]:  # noqa: SIM118
        return {}
    found = json.loads(row["paired"])
    ends = {"difference_low_bps": found["low_bps"], "difference_high_bps": found["high_bps"]}
    return {
        "difference_bps": found["difference_bps"],
        **ends,
        **{name: found[name] for name in ("se_bps", "seeds", "share", "orders", "controlled")},
    }


def _best_of_each(query: Query) -> dict[int, tuple[Any, tuple[dict[str, Any], dict[str, Any]]]]:
    """Rank, and score and paired score, of each iteration's best candidate: by the lower bound of the paired difference, else by PA."""
    found: dict[int, tuple[Any, tuple[dict[str, Any], dict[str, Any]]]] = {}
    for row in query("SELECT * FROM candidates WHERE stage = 'done' ORDER BY iteration, slot"):
        paired = paired_of(row)
        rank = (bool(paired), paired.get("difference_low_bps", 0.0), row["pa_bps"])
        if row["iteration"] not in found or rank > found[row["iteration"]][0]:
            found[row["iteration"]] = rank, (json.loads(row["score"]), paired)
    return found
