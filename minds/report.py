"""`serl minds report`: what minds saw, what they decided and why, as one page. Everything that a model or a sender of news wrote is escaped."""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from serl.agents.pages.origin import current_origin
from serl.agents.pages.page import page, table, write
from serl.minds.report_picture import Curve, Mark, wealth_picture
from serl.minds.report_rows import MindRow, RunFiles, visible

DECISIONS_MAX, EVENTS_MAX, POSTS_MAX = 5_000, 200, 200
"""Maximum number of rows of all minds together, of events and of posts on a page, newest first; the file of decisions contains all."""


def write_report(run: RunFiles, path: Path) -> tuple[Path, Path]:
    """Writes the page and a JSON file next to it. Returns both paths."""
    minds = run.of_mind()
    summary = {name: summary_of(run, name, rows) for name, rows in minds.items()}
    groups = [_group(name, [one for one in summary.values() if one["persona"] == name]) for name in _personas(run)]
    parts = [
        f"<p>{escape(_sentence(run, len(minds)))}</p>",
        "<h2>Personas</h2>", _persona_table(run, groups), *_notes(run),
        "<h2>Wealth</h2>", _picture(run, minds),
        "<h2>Events</h2>", _event_table(run),
        *(["<h2>Forum</h2>", _forum(run)] if run.start.forum else []),
        "<h2>Minds</h2>", *(_timeline(run, name, rows, summary[name], len(minds)) for name, rows in minds.items()),
    ]  # fmt: skip
    origin = current_origin(f"run {run.start.name}, {len(run.rows):,} rows", run.start.seed)
    html = page(f"Minds: {run.start.name}", origin, parts)
    return write(path, html, {"origin": origin.to_json(), "personas": groups, "minds": summary})


def summary_of(run: RunFiles, name: str, rows: Sequence[MindRow]) -> dict[str, Any]:
    """The figures of one mind; turnover and fills are None while the run is in progress."""
    decisions = [row for row in rows if row.row == "decision"]
    wealth = [row.wealth for row in rows if row.wealth is not None]
    counted: dict[str, Any] = next(
        (one for one in (run.statistics or {}).get("minds", []) if isinstance(one, dict) and one.get("mind") == name), {}
    )  # fmt: skip
    return {
        "persona": rows[0].persona, "decisions": len(decisions),
        "refused": dict(Counter(row.refused for row in decisions if row.refused)),
        "first_wealth": wealth[0] if wealth else None, "last_wealth": wealth[-1] if wealth else None,
        "turnover": counted.get("turnover"), "fills": counted.get("fills"), "ended": str(counted.get("ended") or ""),
    }  # fmt: skip


def _personas(run: RunFiles) -> list[str]:
    return [persona.name for persona in run.start.personas]


def _group(name: str, minds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sums over a persona's minds; None where one of them lacks a figure."""
    group: dict[str, Any] = {"persona": name, "minds": len(minds)}
    for figure in ("decisions", "first_wealth", "last_wealth", "turnover", "fills"):
        values = [one[figure] for one in minds]
        group[figure] = sum(values) if values and None not in values else None
    group["refused"] = dict(sum((Counter(one["refused"]) for one in minds), Counter[str]()))
    return group


def _return(figures: dict[str, Any]) -> str:
    first, last = figures["first_wealth"], figures["last_wealth"]
    return "" if not first or last is None or first < 0 else f"{last / first - 1:+.2%}"


def _money(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, int | float) else ""


def _sentence(run: RunFiles, minds: int) -> str:
    decisions = [row for row in run.rows if row.row == "decision"]
    if not decisions:
        return f"No decisions yet, with the model {run.start.model}."
    first, last = run.time(decisions[0].time_ns), run.time(max(row.time_ns for row in decisions))
    return (
        f"{minds:,} minds made {len(decisions):,} decisions from {first} to {last}, with the model {run.start.model}."
    )


def _notes(run: RunFiles) -> Iterator[str]:
    renamed = [f"{shown} is {symbol}" for shown, symbol in run.start.symbols.items() if shown != symbol]
    if renamed:
        yield f"<p>What the minds read and wrote names no symbols: {escape(', '.join(renamed))}.</p>"
    if run.statistics is None:
        yield "<p>The run is not over, or it was killed: turnover and fills come with its statistics.</p>"


def _persona_table(run: RunFiles, groups: Sequence[dict[str, Any]]) -> str:
    heads = ("persona", "minds", "wealth before", "after", "return", "turnover", "fills", "decisions", "refused", "character")  # fmt: skip
    rows = []
    for persona, group in zip(run.start.personas, groups, strict=True):
        refused = ", ".join(f"{reason} {count:,}" for reason, count in sorted(group["refused"].items()))
        character = f"risk {persona.risk}; {persona.style}; holds for {persona.horizon}"
        rows.append([
            escape(persona.name), f"{group['minds']:,}", _money(group["first_wealth"]), _money(group["last_wealth"]),
            _return(group), _money(group["turnover"]), "" if group["fills"] is None else f"{group['fills']:,}",
            f"{group['decisions'] or 0:,}", _shown(refused), _shown(character),
        ])  # fmt: skip
    return table(heads, rows, wrap=True)


def _picture(run: RunFiles, minds: dict[str, list[MindRow]]) -> str:
    curves, times = [], dict[int, str]()
    for name, rows in minds.items():
        known = [(row.time_ns, row.wealth) for row in rows if row.wealth is not None]
        first = known[0][1] if known else 0.0
        points = [(time_ns, wealth / first - 1) for time_ns, wealth in known] if first > 0 else []
        curves.append(Curve(name, rows[0].persona, points))
        times |= {time_ns: run.time(time_ns) for time_ns, _ in points}
    marks = [Mark(number, event.time_ns, visible(event.text)) for number, event in _numbered_events(run)]
    return wealth_picture(curves, marks, times)


def _numbered_events(run: RunFiles) -> list[tuple[int, Any]]:
    return list(enumerate(run.events(), 1))[-EVENTS_MAX:]


def _event_table(run: RunFiles) -> str:
    rows = [
        [str(number), run.time(event.time_ns), escape(event.kind.replace("_", " ")), escape(event.symbol), _shown(event.text),
         "" if event.value is None else f"{event.value:g}"]
        for number, event in _numbered_events(run)
    ]  # fmt: skip
    return table(("", "time", "kind", "symbol", "text", "value"), rows, wrap=True)


def _forum(run: RunFiles) -> str:
    posts = [row for row in run.rows if row.post]
    rows = [[run.time(row.time_ns), escape(row.mind), _shown(row.post)] for row in posts[-POSTS_MAX:]]
    left = f"<p>The last {POSTS_MAX:,} of {len(posts):,} posts.</p>" if len(posts) > POSTS_MAX else ""
    return left + table(("time", "mind", "post"), rows, wrap=True)


def _timeline(run: RunFiles, name: str, rows: Sequence[MindRow], figures: dict[str, Any], minds: int) -> str:
    """The newest rows of one mind, in a collapsible section."""
    count = max(10, DECISIONS_MAX // minds)
    shown = rows[-count:]
    left = f"<p>The last {count:,} of {len(rows):,} rows.</p>" if len(rows) > count else ""
    ended = f"<p>Trades no more: {_shown(figures['ended'])}.</p>" if figures["ended"] else ""
    wealth = f"wealth {_money(figures['last_wealth'])} {_return(figures)}"
    summary = f"<summary>{escape(name)}: {figures['decisions']:,} decisions, {wealth}</summary>"
    cells = [
        [run.time(row.time_ns), _seen(row), _decided(run, row), _shown(row.lesson or row.reason), _owned(row)]
        for row in shown
    ]
    heads = ("time", "saw", "decided", "why", "wealth")
    return f"<details>{summary}{ended}{left}{table(heads, cells, wrap=True)}</details>"


def _seen(row: MindRow) -> str:
    lines = [f"<li>{escape(event.kind.replace('_', ' '))}: {_shown(event.text)}</li>" for event in row.events]
    lines += [f"<li>{_shown(text)}</li>" for text in row.outcomes]
    found = f"<ul>{''.join(lines)}</ul>" if lines else ""
    if row.memories:
        memories = "".join(f"<li>{_shown(text)}</li>" for text in row.memories)
        found += f"<details><summary>remembered {len(row.memories)}</summary><ul>{memories}</ul></details>"
    return found


def _owned(row: MindRow) -> str:
    if row.wealth is None:
        return ""
    held = [f"cash {_money(row.cash)}", *(f"{symbol} {lots:,}" for symbol, lots in row.lots.items())]
    held += [f"loan {_money(row.loan)}"] if row.loan else []
    return f"{_money(row.wealth)}<br><small>{_shown(', '.join(held))}</small>"


def _decided(run: RunFiles, row: MindRow) -> str:
    if row.row != "decision":
        return "the end" if row.row == "end" else "a lesson"
    refused = f' <span class="no">refused: {_shown(row.refused)}</span>' if row.refused else ""
    return f"{_shown(action_text(row, run.start.symbols))}{refused}"


def action_text(row: MindRow, symbols: dict[str, str]) -> str:
    """A decision in words, with the symbol's name on the exchange."""
    match row.action:
        case "buy" | "sell":
            price = "at the market" if row.order_type == "market" else f"at {row.price}"
            return f"{row.action} {row.quantity:,} {symbols.get(row.symbol, row.symbol)} {price}"
        case "cancel":
            return f"cancel order {row.order_id}"
        case "borrow" | "repay":
            return f"{row.action} {row.amount}"
    return row.action


def _shown(text: str) -> str:
    return escape(visible(text))
