"""The database of a run, in SQLite: proposals, results, instructions and iterations."""

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

from serl.researcher.candidates import Candidate, Module, Paired, Result, current_stage
from serl.researcher.inner.results import score_of
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer.errors import RunError
from serl.researcher.outer.records import EvaluatedCandidate, Instruction, Lessons, Prompt, Proposal, Verdict
from serl.researcher.signals import Signal, Signals

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS instructions (
    id INTEGER PRIMARY KEY, iteration INTEGER NOT NULL, kind TEXT NOT NULL, origin TEXT NOT NULL, parents TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS prompts (
    id INTEGER PRIMARY KEY, iteration INTEGER NOT NULL, slot INTEGER NOT NULL, kind TEXT NOT NULL,
    instruction INTEGER REFERENCES instructions, replay_of INTEGER REFERENCES prompts, messages TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS modules (
    id INTEGER PRIMARY KEY, iteration INTEGER NOT NULL, slot INTEGER NOT NULL, kind TEXT NOT NULL, form TEXT NOT NULL, origin TEXT NOT NULL,
    model TEXT NOT NULL, prompt INTEGER REFERENCES prompts, text TEXT, conversation TEXT NOT NULL, answer TEXT, performance_bps REAL);
CREATE TABLE IF NOT EXISTS verdicts (
    id INTEGER PRIMARY KEY, iteration INTEGER NOT NULL, slot INTEGER, kind TEXT, model TEXT NOT NULL, attempt INTEGER NOT NULL,
    stage TEXT NOT NULL, reason TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS candidates (
    iteration INTEGER NOT NULL, slot INTEGER NOT NULL, key TEXT, parents TEXT NOT NULL, modules TEXT NOT NULL, stage TEXT, reason TEXT,
    pa_bps REAL, score TEXT, policy TEXT, facts TEXT, performance_bps REAL, PRIMARY KEY (iteration, slot));
CREATE TABLE IF NOT EXISTS attempts (
    iteration INTEGER NOT NULL, slot INTEGER NOT NULL, number INTEGER NOT NULL, operator TEXT NOT NULL, model TEXT NOT NULL, used INTEGER NOT NULL,
    PRIMARY KEY (iteration, slot, number));
CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, iteration INTEGER NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS iterations (
    iteration INTEGER PRIMARY KEY, model TEXT NOT NULL, pa_bps REAL, ema_bps REAL, change_bps REAL, seconds REAL NOT NULL, facts TEXT NOT NULL);
"""
_UNSTORED: dict[str, Any] = {"controls_bps": ()}
"""Part of a score that is not stored: only the race needs it, and has it in its own files."""
_ADDED = {"difference_bps": "REAL", "lower_bps": "REAL", "paired": "TEXT"}
"""Columns of candidates that databases of earlier versions lack: the paired difference, the lower end of its interval, and the whole paired score
as JSON."""
BEST = "lower_bps IS NULL, lower_bps DESC, pa_bps DESC, iteration, slot"
"""Order of candidates, the best first: by the lower confidence bound of the paired difference; those without one follow by PA."""
MERIT = "coalesce(difference_bps, pa_bps)"
"""The merit of a candidate: the paired difference, or PA in runs of earlier versions."""


class Database:
    """The database of one run. Each public method that writes is one transaction."""

    def __init__(self, path: Path, held: BinaryIO | None = None) -> None:
        """`held` is the lock of the run (run_lock.py), if this process holds it."""
        self._folder = path.parent
        opened = ExitStack()
        self._release = weakref.finalize(self, opened.close)  # also without `close`
        if held:
            opened.enter_context(held)
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, check_same_thread=False)  # proposals are stored from a thread
            self._connection = opened.enter_context(closing(connection))
            self._connection.row_factory = sqlite3.Row
            self._connection.executescript(_SCHEMA)
            self._add_columns()
            self._rename_former_stages()
        except (OSError, sqlite3.Error) as error:
            raise RunError(
                f"{path}: cannot be opened as the database of a run ({error}); give the folder of a run, or a new one"
            ) from None

    def _add_columns(self) -> None:
        known = {row["name"] for row in self.rows("PRAGMA table_info(candidates)")}
        with self._transaction():
            for name, kind in _ADDED.items():
                if name not in known:
                    self.rows(f"ALTER TABLE candidates ADD COLUMN {name} {kind}")

    def _rename_former_stages(self) -> None:
        for table in ("verdicts", "candidates"):
            for (stage,) in self.rows(f"SELECT DISTINCT stage FROM {table} WHERE stage IS NOT NULL"):
                if stage != current_stage(stage):
                    with self._transaction():
                        self.rows(f"UPDATE {table} SET stage = ? WHERE stage = ?", current_stage(stage), stage)

    def close(self) -> None:
        """Closes the file and releases the run's lock."""
        self._release()

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """The rows of a query."""
        with self._lock, self._usable():
            return self._connection.execute(query, values).fetchall()

    def one(self, query: str, *values: Any) -> Any:
        """The first column of a query's first row; None without rows."""
        rows = self.rows(query, *values)
        return rows[0][0] if rows else None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._usable(), self._connection:
            yield

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """RunError if the file is damaged or cannot be written."""
        try:
            yield
        except sqlite3.Error as error:
            raise RunError(
                f"{self._folder}: its database cannot be read or written ({error}); free disk space if there is none left, and continue with --resume"
            ) from None

    def _insert(self, table: str, **values: Any) -> int:
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        done = self._connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))
        return int(done.lastrowid or 0)

    def set_fact(self, name: str, value: Any) -> None:
        """Store a fact about the run, as JSON."""
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def fact(self, name: str) -> Any:
        """A stored fact; None if it is not set."""
        text = self.one("SELECT value FROM facts WHERE name = ?", name)
        try:
            return None if text is None else json.loads(text)
        except ValueError as error:
            raise RunError(f"{self._folder}: its database is damaged ({name}: {error}); use another folder") from None

    def set_signals(self, signals: Signals) -> None:
        """Store the signals of the market."""
        self.set_fact("signals", {name: asdict(one) for name, one in signals.items()})

    @property
    def signals(self) -> Signals:
        """The signals of the market; none if they were not measured."""
        return {name: Signal(**one) for name, one in (self.fact("signals") or {}).items()}

    # proposals

    def add_instructions(self, iteration: int, instructions: Iterable[Instruction]) -> None:
        """Add instructions to the population, from `iteration` on."""
        with self._transaction():
            self._insert_instructions(iteration, instructions)

    def _insert_instructions(self, iteration: int, instructions: Iterable[Instruction]) -> None:
        for one in instructions:
            parents = json.dumps(one.parents)
            self._insert("instructions", iteration=iteration, kind=one.kind, origin=one.origin, parents=parents, text=one.text)  # fmt: skip

    def _insert_verdicts(self, iteration: int, slot: int | None, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            self._insert("verdicts", iteration=iteration, slot=slot, **asdict(verdict))

    def add_proposal(self, iteration: int, slot: int, proposal: Proposal) -> None:
        """Store the proposal of a slot with its drafts."""
        with self._transaction():
            for draft in proposal.drafts:
                prompt = self._insert_prompt(iteration, slot, draft.prompt) if draft.prompt else None
                self._insert(
                    "modules", iteration=iteration, slot=slot, kind=draft.kind, form=draft.form, origin=draft.origin,
                    model=draft.model, prompt=prompt, text=draft.text, conversation=json.dumps(draft.conversation),
                    answer=json.dumps(draft.answer) if draft.answer else None,
                )  # fmt: skip
                self._insert_verdicts(iteration, slot, draft.verdicts)
            for number, attempt in enumerate(proposal.attempts):
                self._insert("attempts", iteration=iteration, slot=slot, number=number, **asdict(attempt))
            made = proposal.candidate
            self._insert(
                "candidates", iteration=iteration, slot=slot, key=made.key if made else None,
                parents=json.dumps(proposal.parents), modules=modules_text(made.modules if made else {}),
                stage=None if made else "rejected", reason=None if made else "no valid module",
            )  # fmt: skip

    def _insert_prompt(self, iteration: int, slot: int, prompt: Prompt) -> int:
        return self._insert(
            "prompts", iteration=iteration, slot=slot, kind=prompt.kind, instruction=prompt.instruction,
            replay_of=prompt.replay_of, messages=json.dumps(prompt.messages),
        )  # fmt: skip

    def slots(self, iteration: int) -> set[int]:
        """The slots of an iteration that have a proposal."""
        return {row["slot"] for row in self.rows("SELECT slot FROM candidates WHERE iteration = ?", iteration)}

    def model_of(self, iteration: int) -> str | None:
        """The language model that wrote the latest module of an iteration; None if no model wrote any."""
        found = self.one(
            "SELECT model FROM modules WHERE iteration = ? AND origin = 'model' ORDER BY id DESC", iteration
        )
        return None if found is None else str(found)

    # results

    def pending(self, iteration: int) -> list[tuple[int, Candidate]]:
        """Slots and candidates of an iteration that have no result yet."""
        found = self.rows("SELECT * FROM candidates WHERE iteration = ? AND stage IS NULL ORDER BY slot", iteration)
        return [(row["slot"], self._with_parent(row)) for row in found]

    def _with_parent(self, row: sqlite3.Row) -> Candidate:
        """A candidate with the key of its first parent."""
        for place in parents_of(row)[:1]:
            parent = str(self.one("SELECT key FROM candidates WHERE iteration = ? AND slot = ?", *place))
            return replace(_candidate(row), parent=parent)
        return _candidate(row)

    def result_of(self, key: str) -> Result | None:
        """The result of an earlier candidate with the same modules; None if there is none."""
        rows = self.rows("SELECT * FROM candidates WHERE key = ? AND stage IS NOT NULL ORDER BY iteration, slot", key)
        return self._result(rows[0]) if rows else None

    def raced(self) -> list[Candidate]:
        """The candidates of finished iterations that raced and did not fail; each set of modules once."""
        found = self.rows(
            "SELECT * FROM candidates WHERE rowid IN (SELECT min(rowid) FROM candidates WHERE score IS NOT NULL "
            "AND json_extract(facts, '$.stages') IS NOT NULL GROUP BY key) ORDER BY iteration, slot"
        )
        return [self._with_parent(row) for row in found]

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self._folder

    def policy_of(self, row: sqlite3.Row) -> str | None:
        """Path of a candidate's policy in the run's present folder."""
        return None if row["policy"] is None else str(self._folder / row["policy"])

    def _result(self, row: sqlite3.Row) -> Result:
        score = score_of(json.loads(row["score"])) if row["score"] else None
        paired = Paired(**json.loads(row["paired"])) if row["paired"] else None
        facts = json.loads(row["facts"] or "{}")
        return Result(row["stage"], row["reason"], score, self.policy_of(row), facts, paired)

    def add_results(
        self, iteration: int, model: str, results: Mapping[int, Result], updates: Mapping[str, Result] | None = None
    ) -> None:  # fmt: skip
        """Store the results of an iteration by slot, and the updated results and performance of earlier candidates that raced on by key. An earlier
        candidate that failed has no performance until `set_performance`; its modules keep theirs until then."""
        with self._transaction():
            for key, result in (updates or {}).items():
                self._store(result, "key = ?", key)
                self._connection.execute(f"UPDATE candidates SET performance_bps = {MERIT} WHERE key = ?", (key,))
                self._set_modules_performance(
                    "text IS NOT NULL AND (iteration, slot) IN "
                    "(SELECT iteration, slot FROM candidates WHERE key = ? AND performance_bps IS NOT NULL)",
                    key,
                )
            for slot, result in results.items():
                self._store(result, "iteration = ? AND slot = ?", iteration, slot)
                reason = "ok" if result.score else result.facts.get("verdict", "no score")
                self._insert_verdicts(iteration, slot, [Verdict(None, model, 0, result.stage, reason, result.reason)])

    def _store(self, result: Result, where: str, *values: Any) -> None:
        """Store a result. The path of the policy is relative to the run's folder, which may be moved."""
        found, paired = result.score, result.paired
        row = {
            "stage": result.stage, "reason": result.reason, "pa_bps": found.pa_bps if found else None,
            "difference_bps": paired.difference_bps if paired else None, "lower_bps": paired.low_bps if paired else None,
            "score": json.dumps(asdict(found) | _UNSTORED) if found else None, "paired": json.dumps(asdict(paired)) if paired else None,
            "policy": os.path.relpath(result.policy, self._folder) if result.policy else None,
            "facts": json.dumps(dict(result.facts), default=str),
        }  # fmt: skip
        names = ", ".join(f"{name} = ?" for name in row)
        self._connection.execute(f"UPDATE candidates SET {names} WHERE {where}", (*row.values(), *values))

    def _set_modules_performance(self, where: str, *values: Any) -> None:
        self._connection.execute(
            "UPDATE modules SET performance_bps = (SELECT performance_bps FROM candidates c WHERE c.iteration = modules.iteration "
            f"AND c.slot = modules.slot) WHERE {where}",
            values,
        )

    def set_performance(self, iteration: int, penalty_bps: float) -> None:
        """Set the performance of an iteration's candidates and modules: the paired difference (PA in runs of earlier versions); the worst so
        far (at most 0) if stopped early without a score; that minus the penalty if failed or rejected. The same applies to earlier candidates
        without a performance: they had a score and failed in a later training.
        """
        worst = min(self.one(f"SELECT min({MERIT}) FROM candidates WHERE iteration <= ?", iteration) or 0.0, 0.0)
        failed = worst - penalty_bps
        late = self.rows(
            "SELECT iteration, slot FROM candidates WHERE iteration < ? AND performance_bps IS NULL", iteration
        )
        with self._transaction():
            self._connection.execute(
                f"UPDATE candidates SET performance_bps = CASE WHEN pa_bps IS NOT NULL THEN {MERIT} WHEN stage = 'halved' THEN ? ELSE ? END "
                "WHERE iteration = ? OR iteration < ? AND performance_bps IS NULL",
                (worst, failed, iteration, iteration),
            )
            self._set_modules_performance("iteration = ?", iteration)
            for place in late:
                self._set_modules_performance("text IS NOT NULL AND iteration = ? AND slot = ?", *place)
            self._connection.execute(
                "UPDATE modules SET performance_bps = ? WHERE text IS NULL AND iteration = ?", (failed, iteration)
            )

    def finish(self, iteration: int, lessons: Lessons, **row: Any) -> None:
        """Store the end of an iteration and what the proposer learned from it."""
        with self._transaction():
            self._insert_instructions(iteration + 1, lessons.instructions)
            self._insert_verdicts(iteration, None, lessons.verdicts)
            for note in lessons.notes:
                self._insert("notes", iteration=iteration, **asdict(note))
            self._insert("iterations", iteration=iteration, facts=json.dumps(lessons.facts), **row)

    # queries for proposers and reports

    @property
    def iterations_done(self) -> int:
        """Number of finished iterations."""
        return int(self.one("SELECT coalesce(max(iteration), 0) FROM iterations"))

    def evaluated(self, before: int, n: int, *, worst: bool = False) -> list[EvaluatedCandidate]:
        """The `n` best candidates of the iterations before `before`, by the lower bound of the paired difference; with `worst`, the `n` worst by the
        difference, including those stopped early. Each set of modules appears once. Runs of earlier versions have PA only."""
        order, which = (
            (f"difference_bps IS NULL, {MERIT}, iteration, slot", "pa_bps IS NOT NULL")
            if worst
            else (BEST, "stage = 'done'")
        )
        found = self.rows(
            f"SELECT * FROM candidates WHERE rowid IN (SELECT min(rowid) FROM candidates WHERE {which} AND iteration < ? GROUP BY key) "
            f"ORDER BY {order} LIMIT ?",
            before, n,
        )  # fmt: skip
        return [self._evaluated(row) for row in found]

    def _evaluated(self, row: sqlite3.Row) -> EvaluatedCandidate:
        merit = row["pa_bps"] if row["difference_bps"] is None else row["difference_bps"]
        performance = merit if row["performance_bps"] is None else row["performance_bps"]
        return EvaluatedCandidate(row["iteration"], row["slot"], _candidate(row), self._result(row), performance)

    def instructions(self, kind: Kind, before: int) -> list[Instruction]:
        """The instructions of a kind at the start of iteration `before`, with their scores so far, oldest first. Modules that were drawn for a prompt
        say nothing about its instruction."""
        found = self.rows(
            "SELECT i.*, avg(m.performance_bps) AS score_bps, count(m.id) AS uses FROM instructions i "
            "LEFT JOIN prompts p ON p.instruction = i.id AND p.iteration < ? LEFT JOIN modules m ON m.prompt = p.id AND m.origin = 'model' "
            "WHERE i.kind = ? AND i.iteration <= ? GROUP BY i.id ORDER BY i.id",
            before, kind.value, before,
        )  # fmt: skip
        return [
            Instruction(kind, row["text"], row["origin"], tuple(json.loads(row["parents"])), row["id"], row["score_bps"], row["uses"])
            for row in found
        ]  # fmt: skip

    def best_prompts(self, kind: Kind, before: int, n: int) -> list[tuple[int, Prompt]]:
        """The `n` past prompts whose modules performed best, with their ids."""
        found = self.rows(
            "SELECT p.* FROM prompts p JOIN modules m ON m.prompt = p.id WHERE p.kind = ? AND p.iteration < ? AND m.text IS NOT NULL "
            "AND p.replay_of IS NULL AND m.origin = 'model' ORDER BY m.performance_bps DESC, p.id LIMIT ?",
            kind.value, before, n,
        )  # fmt: skip
        return [(row["id"], Prompt(kind, tuple(json.loads(row["messages"])), row["instruction"])) for row in found]

    def tally(self) -> list[dict[str, Any]]:
        """Counts of verdicts by stage, reason and model."""
        found = self.rows(
            "SELECT model, stage, reason, count(*) AS count FROM verdicts GROUP BY model, stage, reason ORDER BY model, stage, reason"
        )
        return [dict(row) for row in found]


def modules_text(modules: Mapping[Kind, Module]) -> str:
    """Modules as JSON."""
    return json.dumps({kind.value: asdict(module) for kind, module in modules.items()})


def modules_of(text: str) -> dict[Kind, Module]:
    """Modules from JSON."""
    return {Kind(kind): Module(**module) for kind, module in json.loads(text).items()}


def _candidate(row: sqlite3.Row) -> Candidate:
    return Candidate(modules_of(row["modules"]))


def parents_of(row: Mapping[str, Any] | sqlite3.Row) -> Sequence[tuple[int, int]]:
    """(iteration, slot) of a candidate's parents."""
    return [(int(iteration), int(slot)) for iteration, slot in json.loads(row["parents"])]
