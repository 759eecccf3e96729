"""Commands and events as lines of text, for tables that a reader can check against docs/orders.md.

A command: `p1 c2 NEW buy 10@100 gtc post`, `p1 c3 CANCEL o2`, `p9 c1 HALT s1`; p = participant, c = command_id, o = order_id,
s = symbol; any field can be given by name (`side=2`). A NEW is DAY unless it says otherwise.
An event: `p1 FILL c4 o4 #0 s0 sell 10@100 leaves 0 m1`, with a reason and flags where there are some. Nothing of it is left out but
the times and sequences, which `assert_numbered` checks.
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
    Reason,
    Rows,
    Side,
    TimeInForce,
    command,
)

SHORT = {"p": "participant", "c": "command_id", "o": "order_id", "s": "symbol"}


def parse(line: str) -> Rows:
    """One COMMAND row of one line."""
    fields: dict[str, Any] = {}
    for word in line.split():
        head, tail = word[0], word[1:]
        if "=" in word:  # kind=99 and the like
            name, value = word.split("=")
            fields["time_in_force" if name == "tif" else name] = int(value)
        elif head in SHORT and tail.lstrip("-").isdigit():
            fields[SHORT[head]] = int(tail)
        elif "@" in word:
            fields["qty_lots"], fields["price_ticks"] = map(int, word.split("@"))
        elif word in ("buy", "sell"):
            fields["side"] = Side[word.upper()]
        elif word in ("day", "gtc", "ioc", "fok"):
            fields["time_in_force"] = TimeInForce[word.upper()]
        elif word in ("post", "market"):
            fields["flags"] = fields.get("flags", 0) | (
                CommandFlag.MARKET if word == "market" else CommandFlag.POST_ONLY
            )
        else:
            fields["kind"] = CommandKind[word]
    return command(fields.pop("kind"), **fields)


def parse_all(text: str) -> Rows:
    """COMMAND rows of lines separated by newlines or `;`, each at its own time."""
    lines = [line for line in text.replace(";", "\n").splitlines() if line.strip()]
    rows = np.concatenate([parse(line) for line in lines]) if lines else np.zeros(0, COMMAND)
    rows["time_ns"] = 1000 + 10 * np.arange(len(rows))
    return rows


def show(event: Any) -> str:
    """One EVENT row as a line."""
    side = Side(event["side"]).name.lower() if event["side"] < 2 else f"side={event['side']}"
    words = [
        f"p{event['participant']}",
        EventKind(event["kind"]).name,
        f"c{event['command_id']}",
        f"o{event['order_id']}",
    ]
    words += [f"#{event['order_number']}", f"s{event['symbol']}", side, f"{event['qty_lots']}@{event['price_ticks']}"]
    words += [f"leaves {event['leaves_lots']}"]
    if event["reason"]:
        words.append(Reason(event["reason"]).name)
    words += [flag.name or "" for flag in EventFlag if flag and event["flags"] & flag]
    if event["match_id"]:
        words.append(f"m{event['match_id']}")
    return " ".join(words)


def assert_numbered(commands: Rows, events: Rows) -> None:
    """The events of a fresh market are numbered as they must be: all of them, each participant's, and by command."""
    reports: Counter[int] = Counter()
    for number, event in enumerate(events, start=1):
        reports[int(event["participant"])] += 1
        assert event["sequence"] == number
        assert event["report"] == reports[int(event["participant"])]
        assert event["time_ns"] == commands[event["command_sequence"] - 1]["time_ns"]
    assert (np.diff(events["command_sequence"]) >= 0).all()
    assert set(events["command_sequence"].tolist()) == set(range(1, len(commands) + 1)), "a command without an answer"
