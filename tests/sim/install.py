"""Puts this process into the simulation, for good: import it before anything of the exchange."""

from tests.sim import clock

clock.install()

from tests.sim import libzmq  # noqa: E402 - the order is the point

libzmq.install()

from tests.sim import disk, node  # noqa: E402

disk.install()
node.install()
