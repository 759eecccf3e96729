"""The state of a run, read from its database while it runs. It writes nothing and imports none of the researcher's heavy packages."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from serl.researcher.candidates import NUMBERS_OF_ORDERS, current_stage
from serl.researcher.outer.errors import RunError
from serl.researcher.outer.figures import iterations, paired_of

BUSY_S = 2.0


@contextmanager
def _open_read_only(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of a run read-only; RunError if it is missing or unreadable."""
    path = folder / "run.db"
    if not path.is_file():
        raise RunError(
            f"{folder}: expected a run, got a folder without run.db; start one with: serl researcher start --output {folder}"
        )
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)) as database:
            database.row_factory = sqlite3.Row
            yield database
    except (sqlite3.Error, OverflowError) as error:  # OverflowError: a number in the address is too large for SQLite
        raise RunError(
            f"{path}: cannot be read as the database of a run ({error}); give the folder of a run of `serl researcher start`"
        ) from None


def state(folder: Path) -> str:
    """A tag that changes whenever the run writes to its database."""
    try:
        found = (folder / "run.db").stat()
    except OSError:
        return "none"
    return f"{found.st_mtime_ns:x}-{found.st_size:x}"


def overview(folder: Path) -> dict[str, Any]:
    """All data of the page except the modules' texts; RunError if the run cannot be read."""
    with _open_read_only(folder) as database:
        facts = {row["name"]: json.loads(row["value"]) for row in database.execute("SELECT * FROM facts")}
        config = facts.get("config") or {}
        candidates = [_candidate(row) for row in database.execute("SELECT * FROM candidates ORDER BY iteration, slot")]
        return {
            "name": config.get("name", folder.name),
            "proposer": config.get("proposer"),
            "model": config.get("model"),
            "iterations_planned": config.get("iterations"),
            "command": facts.get("command"),
            "stopped": facts.get("stopped"),
            "iterations": iterations(database.execute),
            "candidates": candidates,
            "instructions": _instructions(database),
            "verdicts": _verdicts(database),
        }


def _candidate(row: sqlite3.Row) -> dict[str, Any]:
    score = json.loads(row["score"]) if row["score"] else {}
    return {
        "iteration": row["iteration"], "slot": row["slot"], "key": row["key"], "parents": json.loads(row["parents"]),
        "stage": row["stage"] and current_stage(row["stage"]), "reason": row["reason"], "kinds": sorted(json.loads(row["modules"])),
        **{name: paired_of(row).get(name) for name in ("difference_bps", "difference_low_bps", "difference_high_bps", "seeds")},
        "pa_bps": row["pa_bps"], "low_bps": score.get("low_bps"), "high_bps": score.get("high_bps"), "twap_bps": score.get("twap_bps"),
    }  # fmt: skip


def _instructions(database: sqlite3.Connection) -> list[dict[str, Any]]:
    """All instructions with the mean performance of the modules written with them."""
    found = database.execute(
        "SELECT i.id, i.iteration, i.kind, i.origin, i.parents, i.text, avg(m.performance_bps) AS score_bps, count(m.id) AS uses "
        "FROM instructions i LEFT JOIN prompts p ON p.instruction = i.id LEFT JOIN modules m ON m.prompt = p.id AND m.origin = 'model' "
        "GROUP BY i.id ORDER BY i.kind, score_bps IS NULL, score_bps DESC, i.id"
    )
    return [dict(row) | {"parents": json.loads(row["parents"])} for row in found]


def _verdicts(database: sqlite3.Connection) -> list[dict[str, Any]]:
    """Counts of failed verdicts by stage, reason and model, with the latest example."""
    found = database.execute(
        "SELECT v.stage, v.reason, v.model, v.text AS example, v.iteration AS last_iteration, t.count FROM verdicts v JOIN "
        "(SELECT max(id) AS newest, count(*) AS count FROM verdicts WHERE reason != 'ok' GROUP BY stage, reason, model) t "
        "ON v.id = t.newest ORDER BY t.count DESC, v.stage, v.reason"
    )
    return [_verdict(row) for row in found]


def candidate(folder: Path, iteration: int, slot: int) -> dict[str, Any]:
    """A candidate with its modules, each with the parent's module of the same kind. RunError if it does not exist or the run is unreadable."""
    with _open_read_only(folder) as database:
        row = _one(database, iteration, slot)
        if row is None:
            raise RunError(f"no candidate in iteration {iteration}, slot {slot}")
        parents = [tuple(place) for place in json.loads(row["parents"])]
        before = {place: _modules(_one(database, *place)) for place in parents}
        modules = []
        for kind, module in sorted(_modules(row).items()):
            place = next((place for place in parents if kind in before[place]), None)
            modules.append(
                {"kind": kind, **module, "parent": place, "parent_text": before[place][kind]["text"] if place else None}
            )
        verdicts = database.execute(
            "SELECT kind, stage, reason, text FROM verdicts WHERE iteration = ? AND slot = ? AND reason != 'ok' ORDER BY id", (iteration, slot)
        )  # fmt: skip
        score = json.loads(row["score"]) if row["score"] else {}
        for name in NUMBERS_OF_ORDERS:
            score.pop(name, None)
        return _candidate(row) | {
            "score": score, "policy": row["policy"] and str(folder / row["policy"]), "modules": modules, "verdicts": [_verdict(one) for one in verdicts],
        }  # fmt: skip


def _verdict(row: sqlite3.Row) -> dict[str, Any]:
    return dict(row) | {"stage": current_stage(row["stage"])}


def _one(database: sqlite3.Connection, iteration: int, slot: int) -> sqlite3.Row | None:
    found: sqlite3.Row | None = database.execute(
        "SELECT * FROM candidates WHERE iteration = ? AND slot = ?", (iteration, slot)
    ).fetchone()
    return found


def _modules(row: sqlite3.Row | None) -> dict[str, dict[str, str]]:
    return json.loads(row["modules"]) if row is not None else {}
