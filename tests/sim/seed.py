"""Runs one seed and tells what became of it."""

import contextlib
import io
import shutil
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.sim.clock import CLOCK
from tests.sim.disk import Installed
from tests.sim.history import Violation
from tests.sim.world import World

LAST_STEPS = 40


@dataclass
class Outcome:
    """What became of one seed."""

    seed: int
    failure: str = ""
    digest: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    steps: list[str] = field(default_factory=list)
    simulated_s: float = 0.0


def simulate(seed: int, folder: Path) -> Outcome:
    """Runs one seed in an empty folder, which it leaves empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    world = World(seed, folder)
    outcome = Outcome(seed)
    began_ns = CLOCK.monotonic_ns
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            world.run()
    except Exception as error:
        kind = "" if isinstance(error, Violation) else f"{type(error).__name__}: "
        outcome.failure = f"{kind}{error}" or kind
        if not isinstance(error, Violation):
            outcome.steps = traceback.format_exc().splitlines()[-12:]
    finally:
        if world.node.process is not None:
            world.node.process.unwind()
            world.disk.close_descriptors()
        Installed.disk = None
        shutil.rmtree(folder, ignore_errors=True)
    outcome.digest = world.digest()
    outcome.counts = world.counts + world.network.counts + world.disk.counts
    outcome.steps = world.steps[-LAST_STEPS:] + outcome.steps
    outcome.simulated_s = (CLOCK.monotonic_ns - began_ns) / 1e9
    return outcome
