"""Where a population's day lies in the exchange's time, and its command ids among those of the session."""

from dataclasses import dataclass

from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.records import REQUEST_BITS
from serl.exchange.records import Rows


def offset_at(population: PopulationConfig, now_ns: int, *, wait_for_open: bool = False) -> int:
    """Exchange time less population time, for a population that joins an exchange at `now_ns` of a clock that runs.

    Within the population's day the two are the same time of day; at any other time, as always on a live clock, the day begins now.
    """
    if population.open_ns <= now_ns < population.close_ns or (wait_for_open and now_ns < population.open_ns):
        return 0
    return now_ns - population.open_ns


@dataclass(frozen=True)
class Timeline:
    """Turns rows of the exchange into rows of the population, and back; both in place."""

    #: exchange time less population time
    offset_ns: int = 0
    #: command id on the wire less the population's, which begin again with each day: those of a session must grow
    ids_before: int = 0

    @classmethod
    def beginning(cls, offset_ns: int, start_ns: int, next_command_id: int) -> "Timeline":
        """For traders that begin at `start_ns` of the population, in a session whose ids are used up to `next_command_id`."""
        return cls(offset_ns, max(0, next_command_id - (start_ns << REQUEST_BITS)))

    def take_public(self, rows: Rows) -> None:
        """EVENT rows of the feed."""
        rows["time_ns"] -= self.offset_ns

    def take_private(self, rows: Rows) -> None:
        """EVENT rows of the session's own reports."""
        rows["time_ns"] -= self.offset_ns
        rows["command_id"] -= self.ids_before
        rows["order_id"] -= self.ids_before

    def send(self, rows: Rows) -> None:
        """COMMAND rows."""
        rows["time_ns"] += self.offset_ns
        rows["command_id"] += self.ids_before
        rows["order_id"][rows["order_id"] > 0] += self.ids_before
