"""All planted bugs by name."""

from tests.sim import bugs_disk, bugs_trade
from tests.sim.planting import Bug

BUGS: dict[str, Bug] = bugs_disk.BUGS | bugs_trade.BUGS
