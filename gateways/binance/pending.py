"""The ids that clients chose for orders whose fate is not known yet."""

from collections.abc import Hashable


class PendingIds:
    """Ids by the command that uses them. One is kept until the exchange answers its command, also if the client is no longer waiting: a client that
    was told nothing sends its order again, with the same id."""

    def __init__(self) -> None:
        self._by_command: dict[int, Hashable] = {}
        self._ids: set[Hashable] = set()

    def __contains__(self, client_id: Hashable) -> bool:
        return client_id in self._ids

    def add(self, command_id: int, client_id: Hashable) -> None:
        """Keeps an id."""
        self._by_command[command_id] = client_id
        self._ids.add(client_id)

    def answered(self, command_id: int) -> None:
        """Drops the id of a command, if it has one: the exchange has answered or refused it."""
        self._ids.discard(self._by_command.pop(command_id, None))

    def clear(self) -> None:
        """Drops all ids."""
        self._by_command.clear()
        self._ids.clear()
