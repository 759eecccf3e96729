"""The report of a run: the best algorithm, PA by iteration, verdicts; as JSON and as HTML (page.py)."""

import json
from collections import defaultdict
from pathlib import Path
from textwrap import shorten
from typing import Any

from serl.agents.pages.origin import Origin
from serl.agents.pages.page import check_path, write
from serl.extras import require
from serl.researcher.outer.ablations import read_ablations
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import BEST, Database, modules_of, parents_of
from serl.researcher.outer.figures import iterations, paired_of
from serl.researcher.outer.final import final_line, score_test
from serl.researcher.outer.loop import converged
from serl.researcher.outer.operator_table import operator_table
from serl.researcher.outer.run import open_run
from serl.researcher.signals import surest


def summary(database: Database, config: OuterConfig) -> dict[str, Any]:
    """The figures of a report as plain JSON."""
    return {
        "name": config.name,
        "command": database.fact("command"),
        "data": database.fact("data") or "not recorded",
        "versions": database.fact("versions"),
        "config": _strict(database.fact("config")),
        "seed": config.seed,
        "stopped": database.fact("stopped"),
        "converged": converged([row["change_bps"] for row in database.rows("SELECT * FROM iterations ORDER BY iteration")], config.convergence),
        "best": best(database),
        "incumbent": {kind.value: one.text for kind, one in config.incumbent_candidate.modules.items()},
        "iterations": iterations(database.rows),
        "race": race(database),
        "valid": valid_shares(database),
        "verdicts": database.tally(),
        "operators": operator_table(database),
        "signals": [{"observation": name, "gain_bps": one.gain_bps, "t": one.t} for name, one in surest(database.signals)],
        "candidates": dict(_counts(database)),
        "test": database.fact("test"),
    }  # fmt: skip


def _strict(value: Any) -> Any:
    """Plain values with infinite limits as text, which strict JSON can contain."""
    return json.loads(json.dumps(value), parse_constant=str)


def best(database: Database) -> dict[str, Any] | None:
    """The candidate with the highest lower bound of the paired difference (or PA, in runs of earlier versions), its modules and its ancestors;
    None if none has a score."""
    rows = database.rows(f"SELECT * FROM candidates WHERE stage = 'done' ORDER BY {BEST} LIMIT 1")
    if not rows:
        return None
    row = rows[0]
    modules = {kind.value: {"form": one.form, "text": one.text} for kind, one in modules_of(row["modules"]).items()}
    place = {name: row[name] for name in ("iteration", "slot", "key")}
    return place | {
        "policy": database.policy_of(row),
        "score": json.loads(row["score"]),
        "paired": paired_of(row),
        "modules": modules,
        "lineage": lineage(database, row["iteration"], row["slot"]),
    }


def race(database: Database) -> list[dict[str, Any]]:
    """The candidates that raced, the best first: stages finished, trainings, paired difference with its interval; each set of modules once."""
    rows = database.rows(
        "SELECT * FROM candidates WHERE rowid IN (SELECT min(rowid) FROM candidates WHERE paired IS NOT NULL GROUP BY key) "
        f"ORDER BY stage != 'done', {BEST}"
    )
    return [
        {"iteration": row["iteration"], "slot": row["slot"], "stage": row["stage"], "stages": json.loads(row["facts"]).get("stages"), **paired_of(row)}
        for row in rows
    ]  # fmt: skip


def winner(folder: Path) -> Path | None:
    """Path of the best candidate's policy; None if no candidate has a score."""
    database, _ = open_run(folder)
    try:
        top = best(database)
    finally:
        database.close()
    return Path(top["policy"]) if top and top["policy"] else None


def lineage(database: Database, iteration: int, slot: int) -> list[dict[str, Any]]:
    """The ancestors of a candidate, the youngest first."""
    found, waiting, seen = list[dict[str, Any]](), [(iteration, slot)], set[tuple[int, int]]()
    while waiting:
        place = waiting.pop(0)
        (row,) = database.rows("SELECT * FROM candidates WHERE iteration = ? AND slot = ?", *place)
        for parent in parents_of(row):
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
                (ancestor,) = database.rows("SELECT * FROM candidates WHERE iteration = ? AND slot = ?", *parent)
                found.append({name: ancestor[name] for name in ("iteration", "slot", "key", "pa_bps")})
    return found


def valid_shares(database: Database) -> list[dict[str, Any]]:
    """Share of valid modules at the first answer and after repairs, by model in order of first use."""
    found = database.rows(
        "SELECT model, count(*) AS modules, sum(text IS NOT NULL) AS valid, sum(text IS NOT NULL AND json_array_length(conversation) <= 2) AS at_once, "
        "min(iteration) AS since FROM modules GROUP BY model ORDER BY min(id)"
    )
    return [
        {"model": row["model"], "since_iteration": row["since"], "modules": row["modules"],
         "valid_at_once": row["at_once"] / row["modules"], "valid": row["valid"] / row["modules"]}
        for row in found
    ]  # fmt: skip


def idle_models(database: Database) -> list[str]:
    """A line for each language model, tuned or not, without a single valid module: whatever the run found, it had no part in it."""
    valid = defaultdict[str, list[bool]](list)
    for row in database.rows("SELECT model, text FROM modules WHERE origin = 'model' ORDER BY id"):
        valid[row["model"].partition("+")[0]].append(row["text"] is not None)
    lines = []
    for model, each in valid.items():
        if not any(each):
            last = database.one(
                "SELECT text FROM verdicts WHERE (model = ? OR instr(model, ?) = 1) AND slot IS NOT NULL AND reason != 'ok' ORDER BY id DESC",
                model,
                f"{model}+",
            )
            lines.append(
                f"warning: {model} wrote no valid module in {len(each)} attempts, so it had no part in this run; the last failed with: "
                + shorten(str(last), 400)
            )
    return lines


def _counts(database: Database) -> list[tuple[str, int]]:
    """Counts of candidates by their last stage."""
    found = database.rows(
        "SELECT coalesce(stage, 'waiting') AS stage, count(*) AS n FROM candidates GROUP BY 1 ORDER BY 1"
    )
    return [(row["stage"], row["n"]) for row in found]


STAGE_WORDS = {"halved": "eliminated after screening"}
"""Printed names of stages (candidates.py) whose names do not say what happened."""


def status_text(database: Database, config: OuterConfig) -> str:
    """The progress of a run in a few lines."""
    found = summary(database, config)
    top, rows = found["best"], found["iterations"]
    lines = [f"{config.name}: {len(rows)} of {config.iterations} iterations; {found['stopped'] or 'not ended'}"]
    lines.append(
        "candidates: "
        + (", ".join(f"{n} {STAGE_WORDS.get(stage, stage)}" for stage, n in found["candidates"].items()) or "none")
    )
    if top:
        score = top["score"]
        against = ""
        if paired := top["paired"]:
            against = (
                f", {paired['difference_bps']:+.2f} bps [{paired['difference_low_bps']:+.2f}, {paired['difference_high_bps']:+.2f}] against the "
                f"incumbent, {paired['seeds']} seeds"
            )
        lines.append(
            f"best: PA {score['pa_bps']:+.2f} bps [{score['low_bps']:+.2f}, {score['high_bps']:+.2f}]{against}, iteration {top['iteration']}, {top['policy']}"
        )
    for share in found["valid"]:
        lines.append(
            f"{share['model']}: {share['valid']:.0%} of {share['modules']} modules valid, {share['valid_at_once']:.0%} valid at the first attempt"
        )
    if found["test"] is not None:
        lines.append(f"test part: {final_line(found['test'])}")
    elif opened := database.fact("test_opened"):
        lines.append(
            f"test part: opened on {opened['time']}, not scored yet; `serl researcher report {database.folder} --final` goes on"
        )
    return "\n".join(lines)


def write_report(folder: Path, path: Path, *, final: bool = False, ablations: Path | None = None) -> dict[str, Any]:
    """Write the HTML page and, next to it, the JSON.

    `final` compares the best candidate with the incumbent on the test part (final.py): RunError the second time. `ablations`: a folder of
    `python -m benchmarks.proof`, whose table is added. MissingPackageError without the extra `reports`, or with `final` without `learning`.
    """
    require("the report", "matplotlib", *(("pyarrow", "safetensors", "torch") if final else ()), extra="reports")
    from serl.researcher.outer.page import page

    compared = None if ablations is None else [row.model_dump(mode="json") for row in read_ablations(ablations)]
    database, config = open_run(folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_path(path)
        if final:
            score_test(database, config)
        found = summary(database, config) | {"ablations": compared}
    finally:
        database.close()
    origin = Origin(found["command"], found["data"], found["seed"], found["versions"])
    found["made"] = origin.to_json()
    write(path, page(found, origin), found)
    return found
