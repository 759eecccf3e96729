"""Printed labels for the counts of an import whose names in a day file are not clear enough. docs/history.md defines the counts."""

LABELS = {
    "unnamed_cancels": "cancels of orders that the file never introduced",
    "executions_other_head": "executions of orders behind the head of the queue",
    "executions_unfilled": "executions without enough lots in the book",
    "prints_rounded": "prints rounded to the tick",
    "prices_rounded": "order prices rounded to the tick",
    "crosses_empty": "crosses without volume",
    "halted_orders": "orders dropped during halts",
    "refresh_adds": "levels with more lots as they came into view",
    "refresh_cuts": "levels with fewer lots as they came into view",
    "lots_unfilled": "lots of trades without a counterparty",
    "unexplained": "level changes without a message",
    "missing_lots": "lots to remove that the level did not have",
}


def label(name: str) -> str:
    """The label of a count, by its name in a day file."""
    return LABELS.get(name, name.replace("_", " "))
