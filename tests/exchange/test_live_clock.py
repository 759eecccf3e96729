"""A live clock after the system clock has been set."""

import subprocess
import sys
from pathlib import Path

from serl.exchange.clock import Clock
from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.gateway.state import LAST_COMMAND_NS
from tests.sim import clock as simulated

HOUR_NS, SECOND_NS = 3_600_000_000_000, 1_000_000_000


def test_a_live_clock_continues_after_the_system_clock_went_back(tmp_path: Path) -> None:
    """Commands with a latency waited until the system clock had caught up. In a process of its own, whose system clock can be set."""
    command = [sys.executable, "-m", "tests.exchange.test_live_clock", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_live_clock_starts_at_the_last_command_and_continues(tmp_path: Path) -> None:
    config = load_config(overrides={"symbols": [{"name": "A"}]})
    core = Core(config, tmp_path)
    ahead_ns = Clock(core.gateway, config.clock, lambda: 0).now_ns() + HOUR_NS
    core.gateway.counter[LAST_COMMAND_NS] = ahead_ns
    clock = Clock(core.gateway, config.clock, lambda: ahead_ns + SECOND_NS)
    times_ns = [clock.now_ns() for _ in range(3)]
    assert ahead_ns + SECOND_NS <= times_ns[0] < times_ns[1] < times_ns[2] < ahead_ns + HOUR_NS
    core.close()


def set_system_clock(folder: Path) -> None:
    """Sets the simulated system clock back and forward, and compares the exchange's."""
    simulated.install()
    config = load_config(overrides={"symbols": [{"name": "A"}]})
    core, system = Core(config, folder), simulated.CLOCK
    clock = Clock(core.gateway, config.clock, lambda: 0)
    core.gateway.counter[LAST_COMMAND_NS] = start_ns = clock.follow()
    system.jump(-HOUR_NS)
    passed_ns = []
    for _ in range(3):
        system.advance(SECOND_NS)
        passed_ns.append(clock.follow() - start_ns)
        system.advance(SECOND_NS)
        passed_ns.append(clock.now_ns() - start_ns)
    assert passed_ns == [SECOND_NS * count for count in range(1, 7)], passed_ns
    system.jump(HOUR_NS // 2)
    system.advance(SECOND_NS)
    assert clock.follow() - start_ns == 7 * SECOND_NS, "still behind"
    system.jump(HOUR_NS)
    assert clock.follow() == system.system_ns, "ahead: the exchange follows"


if __name__ == "__main__":
    set_system_clock(Path(sys.argv[1]))
