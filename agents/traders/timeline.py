"""Converts between a population's time and command ids and those of the exchange and the session."""

from dataclasses import dataclass

from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.records import REQUEST_BITS
from serl.exchange.records import Rows


def day_offset_ns(population: PopulationConfig, now_ns: int, *, wait_for_open: bool = False) -> int:
    """Exchange time minus population time, for a population that joins at `now_ns` on a running clock.

    Within the population's day the two are equal. At any other time, as always on a live clock, the day starts now.
    """
    if population.open_ns <= now_ns < population.close_ns or (wait_for_open and now_ns < population.open_ns):
        return 0
    return now_ns - population.open_ns


@dataclass(frozen=True)
class Timeline:
    """Converts rows between the exchange and the population, in place."""

    #: exchange time minus population time
    offset_ns: int = 0
    #: command id on the wire minus the population's: ids of a session must increase, a population's restart every day
    id_offset: int = 0

    @classmethod
    def starting_at(cls, offset_ns: int, start_ns: int, next_command_id: int) -> "Timeline":
        """The timeline of traders that start at `start_ns` of the population, in a session that continues at `next_command_id`."""
        return cls(offset_ns, max(0, next_command_id - (start_ns << REQUEST_BITS)))

    def shift_public(self, rows: Rows) -> None:
        """Converts EVENT rows of the feed to the population."""
        rows["time_ns"] -= self.offset_ns

    def shift_reports(self, rows: Rows) -> None:
        """Converts EVENT rows of the session's reports to the population."""
        rows["time_ns"] -= self.offset_ns
        rows["command_id"] -= self.id_offset
        rows["order_id"] -= self.id_offset

    def shift_commands(self, rows: Rows) -> None:
        """Converts COMMAND rows to the exchange."""
        rows["time_ns"] += self.offset_ns
        rows["command_id"] += self.id_offset
        rows["order_id"][rows["order_id"] > 0] += self.id_offset
