"""Commands and events as lines of text, for tables that a reader can check against docs/orders.md.

A command: `p1 c2 NEW buy 10@100 gtc post`, `p1 c3 CANCEL o2`, `p9 c1 HALT s1`; p = participant, c = command_id, o = order_id,
s = symbol, t = time_ns; any field can be given by name (`side=2`). A NEW is DAY by default.
Terms are part of their NEW: `p1 c20 NEW buy 10@100 display=3 link=5 stp=oldest`. Each becomes a TERM command before it, in the order of
`Term`; these take the command ids directly below the NEW's (here 17, 18, 19), which must be left free.
`PHASE OPENING s0`, `RULE LOT 10 s0`, `RULE TICK 5 o1000` (from price 1000 on), `ACCOUNT o2 KILLED 1`: the setting, then its value. `HALT NEWS`.
An event: `p1 FILL c4 o4 #0 s0 sell 10@100 leaves 0 m1`, with its reason and flags, if any. Every field is shown except times and
sequences, which `assert_numbered` checks.
"""

from collections import Counter
from typing import Any

import numpy as np

from serl.exchange.records import (
    COMMAND,
    CommandFlag,
    CommandKind,
    EventFlag,
    EventKind,
    HaltReason,
    Peg,
    Phase,
    Reason,
    Rows,
    Rule,
    SelfTrade,
    Setting,
    Side,
    Term,
    TimeInForce,
    command,
)

SHORT = {"p": "participant", "c": "command_id", "o": "order_id", "s": "symbol", "t": "time_ns"}
TIMES_IN_FORCE = {time_in_force.name.lower(): time_in_force for time_in_force in TimeInForce}
FLAGS = {
    "post": CommandFlag.POST_ONLY, "market": CommandFlag.MARKET, "hidden": CommandFlag.HIDDEN, "aon": CommandFlag.ALL_OR_NONE,
    "reduce": CommandFlag.REDUCE_ONLY, "terms": CommandFlag.TERMS, "to_limit": CommandFlag.TO_LIMIT,
}  # fmt: skip
TERMS = {
    "display": Term.DISPLAY_LOTS, "min": Term.MIN_LOTS, "stop": Term.STOP_TICKS, "trail": Term.TRAIL_TICKS, "peg": Term.PEG,
    "offset": Term.OFFSET_TICKS, "until": Term.EXPIRE_NS, "link": Term.LINK, "stp": Term.SELF_TRADE,
    "touch": Term.TOUCH_TICKS, "updates": Term.UPDATE_LINK, "waits": Term.WAITS, "child": Term.CHILD,
}  # fmt: skip
NAMED_VALUES = {
    **{f"peg={each.name.lower()}": int(each) for each in Peg},
    **{f"stp={each.name.lower()}": int(each) for each in SelfTrade},
}
NAMES_OF_FLAGS: dict[CommandKind, Any] = {
    CommandKind.HALT: HaltReason,
    CommandKind.PHASE: Phase,
    CommandKind.RULE: Rule,
    CommandKind.ACCOUNT: Setting,
}
FIRST_TIME_NS, STEP_NS = 1000, 10


def parse(line: str) -> Rows:
    """The COMMAND rows of one line: one TERM per term, then the command."""
    fields: dict[str, Any] = {}
    terms: dict[Term, int] = {}
    for word in line.split():
        name, equals, value = word.partition("=")
        if equals and name in TERMS:
            terms[TERMS[name]] = NAMED_VALUES[word] if word in NAMED_VALUES else int(value)
        elif equals:  # kind=99 and the like
            fields["time_in_force" if name == "tif" else name] = int(value)
        elif word[0] in SHORT and word[1:].lstrip("-").isdigit():
            fields[SHORT[word[0]]] = int(word[1:])
        elif "@" in word:
            fields["qty_lots"], fields["price_ticks"] = map(int, word.split("@"))
        elif word in ("buy", "sell"):
            fields["side"] = Side[word.upper()]
        elif word in TIMES_IN_FORCE:
            fields["time_in_force"] = TIMES_IN_FORCE[word]
        elif word in FLAGS:
            fields["flags"] = fields.get("flags", 0) | FLAGS[word]
        elif word.lstrip("-").isdigit():
            fields["price_ticks"] = int(word)
        elif "kind" in fields:  # the name of the phase, rule, setting or reason
            fields["flags"] = NAMES_OF_FLAGS[fields["kind"]][word]
        else:
            fields["kind"] = CommandKind[word]
    if terms:
        fields["flags"] = fields.get("flags", 0) | CommandFlag.TERMS
    return np.concatenate([*_term_rows(fields, terms), command(fields.pop("kind"), **fields)])


def _term_rows(fields: dict[str, Any], terms: dict[Term, int]) -> list[Rows]:
    first, at = fields.get("command_id", 0) - len(terms), {"participant": fields.get("participant", 0)}
    at["time_ns"] = fields.get("time_ns", 0)
    return [
        command(CommandKind.TERM, command_id=first + place, flags=term, price_ticks=value, **at)
        for place, (term, value) in enumerate(sorted(terms.items()))
    ]


def parse_all(text: str) -> Rows:
    """COMMAND rows of lines separated by newlines or `;`. The first line has time 1000, each next one 10 ns more, unless it sets t."""
    lines = [line for line in text.replace(";", "\n").splitlines() if line.strip()]
    parts, time_ns = [], FIRST_TIME_NS - STEP_NS
    for line in lines:
        rows = parse(line)
        time_ns = int(rows[0]["time_ns"]) or time_ns + STEP_NS
        rows["time_ns"] = time_ns
        parts.append(rows)
    return np.concatenate(parts) if parts else np.zeros(0, COMMAND)


def show(event: Any) -> str:
    """One EVENT row as a line."""
    side = Side(event["side"]).name.lower() if event["side"] < 2 else f"side={event['side']}"
    kind = EventKind(event["kind"])
    words = [f"p{event['participant']}", kind.name, f"c{event['command_id']}", f"o{event['order_id']}"]
    words += [f"#{event['order_number']}", f"s{event['symbol']}", side, f"{event['qty_lots']}@{event['price_ticks']}"]
    words += [f"leaves {event['leaves_lots']}"]
    if event["reason"]:
        words.append(Reason(event["reason"]).name)
    if kind == EventKind.PHASED:
        words.append(Phase(event["flags"]).name)
    elif kind == EventKind.HALTED:
        words += [HaltReason(event["flags"]).name] if event["flags"] else []
    elif kind == EventKind.SET:
        words.append(f"flags={event['flags']}")
    else:
        words += [flag.name or "" for flag in EventFlag if flag and event["flags"] & flag]
    if event["match_id"]:
        words.append(f"m{event['match_id']}")
    return " ".join(words)


def assert_numbered(commands: Rows, events: Rows) -> None:
    """Asserts that the events of a fresh market are numbered correctly: sequences, report numbers and command sequences."""
    reports: Counter[int] = Counter()
    for number, event in enumerate(events, start=1):
        reports[int(event["participant"])] += 1
        assert event["sequence"] == number
        assert event["report"] == reports[int(event["participant"])]
        assert event["time_ns"] == commands[event["command_sequence"] - 1]["time_ns"]
    assert (np.diff(events["command_sequence"]) >= 0).all()
    silent = np.flatnonzero(np.isin(commands["kind"], (CommandKind.TERM, CommandKind.TIME))) + 1
    answered = set(events["command_sequence"].tolist()) | set(silent.tolist())
    assert answered == set(range(1, len(commands) + 1)), "a command has no answer"
