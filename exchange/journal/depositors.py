"""Finds the participants with deposits from the exchange, from the commands of a journal."""

from serl.exchange.gateway.state import EXECUTED, GatewayState
from serl.exchange.journal.journal import Journal
from serl.exchange.journal.stored import stored_rows
from serl.exchange.records import COMMAND, CommandKind


def depositors(journal: Journal, gateway: GatewayState) -> set[int]:
    """The participants that have had deposits from the exchange itself, according to the stored commands. O(commands)."""
    found: set[int] = set()
    for path in journal.segments("commands"):
        is_current = path == journal.commands.path
        rows = journal.commands.rows[: gateway.counter[EXECUTED]] if is_current else stored_rows(path, COMMAND)[:]
        own = (rows["kind"] == CommandKind.DEPOSIT) & (rows["command_id"] == 0) & (rows["price_ticks"] > 0)
        found.update(rows["order_id"][own].tolist())
    return found
