"""Statistics of a run of minds: a row for each mind, for each persona and for all minds, and the herding measure."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import compress
from typing import Any

from serl.exchange.records import Side
from serl.minds.herding import herding
from serl.minds.mind import Mind
from serl.minds.schedule import Schedule

SUMMED = (
    "decisions", "valid", "orders", "fills", "turnover", "posts", "reflections", "calls", "shared_answers",
    "prompt_tokens", "completion_tokens", "first_wealth", "final_wealth",
)  # fmt: skip
DECIDERS = {"model": "with a model", "random": "at random"}
"""How a persona's minds decide, and how a table names it."""
COUNTED = ("actions", "refused", "rejected")
COLUMNS = (
    "minds",
    "decisions",
    "valid",
    "refused",
    "orders",
    "fills",
    "turnover",
    "wealth",
    "return",
    "calls",
    "tokens",
)


def mind_row(mind: Mind, final_wealth: Decimal | None) -> dict[str, Any]:
    """The statistics of one mind. final_wealth: None if the exchange was unavailable at the end."""
    counts, ledger = mind.counts, mind.ledger
    return {
        "mind": mind.name, "persona": mind.persona.name, "ended": mind.ended,
        "decisions": counts.decisions, "valid": counts.valid, "actions": dict(counts.actions),
        "refused": dict(counts.refused), "rejected": dict(counts.rejected),
        "orders": counts.orders, "fills": len(mind.client.fills()), "turnover": float(mind.turnover),
        "first_wealth": None if mind.first_wealth is None else float(mind.first_wealth),
        "final_wealth": None if final_wealth is None else float(final_wealth),
        "posts": counts.posts, "reflections": counts.reflections, "memories": len(mind.memory.items),
        "events": counts.events, "contradictions": counts.contradictions, "calls": ledger.calls,
        "shared_answers": ledger.shared, "prompt_tokens": ledger.prompt_tokens, "completion_tokens": ledger.completion_tokens,
    }  # fmt: skip


def total_row(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sum of the rows of minds; wealth is None if one of them has none."""
    total: dict[str, Any] = {"minds": len(rows)}
    for name in SUMMED:
        values = [row[name] for row in rows]
        total[name] = None if None in values else sum(values)
    for name in COUNTED:
        total[name] = dict(sum((Counter(row[name]) for row in rows), Counter[str]()))
    return total | {"return": _return(total["first_wealth"], total["final_wealth"])}


def _return(first: float | None, final: float | None) -> float | None:
    return None if first is None or final is None or first <= 0 else final / first - 1


def statistics_of(
    minds: Sequence[Mind], wealth: Sequence[Decimal | None], schedule: Schedule, *, stopped: bool
) -> dict[str, Any]:
    """The statistics of a run as plain JSON."""
    rows = [mind_row(mind, final) for mind, final in zip(minds, wealth, strict=True)]
    names = dict.fromkeys(row["persona"] for row in rows)
    kinds = {kind: [mind.persona.decides == kind for mind in minds] for kind in DECIDERS}
    groups = {
        kind: total_row(list(compress(rows, members)))
        | {"herding": dataclasses.asdict(herding(_net_lots(list(compress(minds, members)), schedule)))}
        for kind, members in kinds.items()
    }  # fmt: skip
    return {
        "stopped_early": stopped,
        "start_ns": schedule.start_ns, "end_ns": schedule.end_ns,
        "all": total_row(rows),
        "personas": {name: total_row([row for row in rows if row["persona"] == name]) for name in names},
        "herding": dataclasses.asdict(herding(_net_lots(minds, schedule))),
        **({"deciders": groups} if any(kinds["random"]) else {}),
        "contradictions": max((row["contradictions"] for row in rows), default=0),
        "minds": [row | {"return": _return(row["first_wealth"], row["final_wealth"])} for row in rows],
    }  # fmt: skip


def _net_lots(minds: Sequence[Mind], schedule: Schedule) -> Iterator[tuple[str, int, str, int]]:
    """A row for each fill; a period is one decision interval."""
    for mind in minds:
        for fill in mind.client.fills():
            symbol = mind.client.session.instrument_numbered(fill.symbol).name
            lots = fill.qty_lots if fill.side == Side.BUY else -fill.qty_lots
            yield symbol, (fill.time_ns - schedule.start_ns) // schedule.interval_ns, mind.name, lots


def table_text(statistics: dict[str, Any]) -> str:
    """The statistics as a table, with the reasons of refusals and the herding measure below."""
    rows = [("persona", *COLUMNS)]
    groups = {DECIDERS[kind]: row for kind, row in statistics.get("deciders", {}).items()}
    named = {**statistics["personas"], **groups, "all": statistics["all"]}
    rows += [(name, *_cells(row)) for name, row in named.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    for name, title in (("refused", "refused"), ("rejected", "rejected by the exchange")):
        if reasons := statistics["all"][name]:
            lines.append(f"{title}: {', '.join(f'{reason} {count:,}' for reason, count in sorted(reasons.items()))}")
    for name, measured in {"": statistics["herding"], **{name: row["herding"] for name, row in groups.items()}}.items():
        if measured["mean"] is not None:
            who, count = f" of minds {name}" if name else "", measured["symbol_periods"]
            lines.append(
                f"herding{who} (Lakonishok-Shleifer-Vishny): {measured['mean']:.3f} over {count:,} period{'s' if count > 1 else ''}"
            )
    if statistics["contradictions"]:
        lines.append(f"contradictory events: {statistics['contradictions']:,}")
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    wealth, gain = row["final_wealth"], row["return"]
    tokens = row["prompt_tokens"] + row["completion_tokens"]
    return (
        f"{row['minds']:,}", f"{row['decisions']:,}", f"{row['valid']:,}", f"{sum(row['refused'].values()):,}",
        f"{row['orders']:,}", f"{row['fills']:,}", f"{row['turnover']:,.2f}", "unknown" if wealth is None else f"{wealth:,.2f}",
        "unknown" if gain is None else f"{gain:+.3%}", f"{row['calls']:,}", f"{tokens:,}",
    )  # fmt: skip
