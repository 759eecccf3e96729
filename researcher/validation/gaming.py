"""Reasons for ways to game the score. The sandbox and the contracts prevent them; with these reasons, verdicts show that a module tried."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from serl.researcher.modules.contracts import Floats, RewardInputs
from serl.researcher.validation.findings import Finding, Reason

MODULES = {
    **dict.fromkeys(("time", "datetime", "timeit", "sched"), Reason.TOUCHES_TIME),
    **dict.fromkeys(
        ("os", "io", "pathlib", "shutil", "tempfile", "glob", "pickle", "sqlite3", "mmap"), Reason.TOUCHES_FILES
    ),
    **dict.fromkeys(("serl", "gc", "inspect", "sys", "ctypes", "importlib"), Reason.TOUCHES_SCORER),
    **dict.fromkeys(("random", "secrets", "uuid"), Reason.TOUCHES_SEEDS),
}
"""The reason for refusing an import, by the first part of its name. The contracts of modules, which are part of serl, may be imported."""
NAMES = {"open": Reason.TOUCHES_FILES}
ATTRIBUTES = {
    **dict.fromkeys(("load", "save", "fromfile", "tofile", "memmap", "loadtxt", "savetxt", "genfromtxt", "from_file"), Reason.TOUCHES_FILES),
    **dict.fromkeys(("seed", "manual_seed", "set_state", "set_rng_state", "initial_seed"), Reason.TOUCHES_SEEDS),
}  # fmt: skip
MARKET = ("sign", "step", "steps", "last", "drift_bps", "vwap_bps", "spread_bps", "imbalance", "decision_drift_bps",
    "move_bps",)  # fmt: skip
"""Inputs of a reward that are the same whatever a small order does; the other inputs depend on its fills."""

SHIFTS = (1, 5)
"""Offsets of the orders whose fills an order is given instead of its own."""


def reason_of_import(name: str) -> Reason:
    """The reason for refusing an import."""
    return MODULES.get(name.partition(".")[0], Reason.IMPORT)


def pays_for_nothing(
    rewards: Callable[[Sequence[RewardInputs]], Floats], steps: Sequence[RewardInputs], paid: Floats
) -> list[Finding]:  # fmt: skip
    """A finding if the rewards `paid` (steps, environments) of an episode do not change when orders get the fills of other orders: then no action can
    earn anything."""
    fields = [field.name for field in dataclasses.fields(RewardInputs) if field.name not in (*MARKET, "memory")]
    for shift in SHIFTS:
        others = [
            dataclasses.replace(step, **{name: np.roll(getattr(step, name), shift) for name in fields})
            for step in steps
        ]
        if not np.array_equal(rewards(others), paid):
            return []
    text = (
        "the reward pays for nothing: it is the same whatever the order did; pay for what was filled, at which price, or what remains "
        "(filled, gain_bps, price_bps, remaining, unfilled)"
    )
    return [Finding(Reason.PAYS_FOR_NOTHING, text)]
