"""The scored modules of a run, from its database, as experience for tuning."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serl.researcher.candidates import Candidate
from serl.researcher.llm.answers import Answer, Token
from serl.researcher.llm.requests import grammar_of
from serl.researcher.modules.contracts import Form, Kind, form_of
from serl.researcher.modules.specs import json_schema
from serl.researcher.outer.database import Database, modules_of
from serl.researcher.tuning.base import Base
from serl.researcher.tuning.experience import Experience, experience_of
from serl.researcher.tuning.features import features_of
from serl.researcher.tuning.pool import Scored
from serl.researcher.tuning.rewards import Measurement, paired

_QUERY = """
SELECT m.*, c.key, c.stage, c.score, c.paired, c.facts, c.modules, c.performance_bps AS candidate_bps, a.model AS asked FROM modules m
JOIN candidates c ON c.iteration = m.iteration AND c.slot = m.slot
LEFT JOIN attempts a ON a.iteration = m.iteration AND a.slot = m.slot AND a.number = 0
WHERE m.iteration {} ? AND (m.text IS NOT NULL OR m.answer IS NOT NULL) AND m.conversation != '[]' ORDER BY m.iteration, m.id
"""
Rows = Sequence[Mapping[str, Any]]


def grammar(kind: Kind, form: Form) -> str | None:
    """The grammar under which modules of a kind are written; None for code."""
    return grammar_of(json_schema(kind)) if form_of(kind, form) == "spec" else None


def run_of(database: Database) -> str:
    """A short hash of a run's data and settings: scores of different runs are not compared."""
    content = json.dumps([database.fact("data"), database.fact("config")], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Recorded:
    """A scored module of the database."""

    id: str
    row: Scored
    """Without its log_proposal."""
    drawable: str | None
    """The specification, if it could have been drawn uniformly as well; None if the policy alone can have proposed it."""


def recorded_modules(database: Database, base: Base, form: Form, model: str, iteration: int) -> list[Recorded]:
    """All modules up to an iteration that `model` (its name without an adapter) wrote with tokens, or that were drawn for its prompts, oldest
    first. Modules of `iteration` are fresh."""
    rows = [dict(row) for row in database.rows(_QUERY.format("<="), iteration)]
    scores, run = _measurements(rows), run_of(database)
    return [
        _recorded(row, base, form, scores.get(row["key"]), run, row["iteration"] == iteration)
        for row in rows
        if _is_of(row, model)
    ]


def modules_ahead(database: Database, base: Base, form: Form, model: str, iteration: int) -> list[Recorded]:
    """As `recorded_modules`, for later iterations, which were proposed while the candidates of `iteration` trained. They have no score and no
    performance yet."""
    unknown = {"performance_bps": 0.0, "candidate_bps": 0.0}
    rows = [dict(row) | unknown for row in database.rows(_QUERY.format(">"), iteration)]
    return [_recorded(row, base, form, None, run_of(database), False) for row in rows if _is_of(row, model)]


def _is_of(row: Mapping[str, Any], model: str) -> bool:
    """Whether `model` wrote a module with tokens, or the module was drawn for one of the model's prompts. The policy gradient cannot learn from
    what another model of the run proposed. Only the first attempt of a slot asks a model; earlier versions stored no attempts."""
    if row["origin"] == "uniform":
        return row["asked"] in (None, model)
    tokens = json.loads(row["answer"] or "{}").get("tokens", [])
    return row["model"].partition("+")[0] == model and _has_ids(tokens)


def _has_ids(tokens: Sequence[Mapping[str, Any]]) -> bool:
    """Whether tokens are stored and all have ids."""
    return bool(tokens) and all(token["id"] is not None for token in tokens)


def _recorded(
    row: Mapping[str, Any], base: Base, form: Form, score: Measurement | None, run: str, fresh: bool
) -> Recorded:
    repaired = len(json.loads(row["conversation"])) > 2
    drawable = form_of(Kind(row["kind"]), form) == "spec" and not repaired
    scored = Scored(
        _module(row, base, form), row["kind"], row["key"] or f"rejected-{row['id']}", f"{run} {_training(row)}",
        None if row["text"] is None else score, fresh,
    )  # fmt: skip
    return Recorded(str(row["id"]), scored, row["text"] if drawable else None)


def _training(row: Mapping[str, Any]) -> str:
    """The training after which a candidate's score was measured: scores after more training are better, and are not compared with others."""
    if Candidate(modules_of(row["modules"])).is_rule:
        return "no training"
    if row["paired"]:
        return f"share {json.loads(row['paired'])['share']:g}"
    facts = json.loads(row["facts"] or "{}")
    return f"share {facts.get('share', 1.0):g}, seeds {facts.get('seeds', 1)}"


def _measurements(rows: Rows) -> dict[str, Measurement]:
    """The measured score of each scored candidate by key: its difference to the incumbent; in runs of earlier versions, its score relative to the
    other candidates with the same training, on common orders."""
    found = {row["key"]: _measured(row) for row in rows if row["paired"]}
    groups: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["score"] and row["key"] not in found:
            groups.setdefault(_training(row), {}).setdefault(row["key"], row)
    for members in groups.values():
        scores = {key: json.loads(row["score"]) for key, row in members.items()}
        orders = {key: score["advantages_bps"] for key, score in scores.items()}
        measured = paired(orders, {key: score["pa_bps"] for key, score in scores.items()})
        found |= {key: Measurement(*measured[key], _features(row)) for key, row in members.items()}
    return found


def _measured(row: Mapping[str, Any]) -> Measurement:
    score = json.loads(row["paired"])
    return Measurement(score["difference_bps"], score["se_bps"], _features(row))


def _features(row: Mapping[str, Any]) -> dict[str, float] | None:
    """The choices of all specifications of a candidate; None if some of its modules are code."""
    modules = modules_of(row["modules"])
    specs = {kind.value: module.text for kind, module in modules.items() if module.form == "spec"}
    return features_of(specs) if len(specs) == len(modules) else None


def _module(row: Mapping[str, Any], base: Base, form: Form) -> Experience:
    prompt, kind = base.prompt_ids(json.loads(row["conversation"])), Kind(row["kind"])
    if row["origin"] == "uniform":
        return Experience(prompt, base.text_ids(row["text"]), row["candidate_bps"], grammar(kind, form))
    stored = json.loads(row["answer"])
    answer = Answer(stored["text"], stored["finish"], tuple(Token(**token) for token in stored["tokens"]))
    return experience_of(prompt, answer, row["performance_bps"], grammar(kind, form))
