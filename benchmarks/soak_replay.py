"""`python -m benchmarks.soak_replay JOURNAL CONFIG` restores a copied journal from its oldest snapshot, executes all commands after it, and prints the snapshot's
last command, the last command and the state hash. An exchange that starts on the folder would begin with the newest snapshot."""

import sys
from pathlib import Path

from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.journal.snapshots import snapshot_paths


def replay(folder: Path, config: Path) -> tuple[int, int, str]:
    """(last command of the snapshot, last command, state hash). Deletes the newer snapshots in the folder."""
    for path in snapshot_paths(folder)[1:]:
        path.unlink()
    core = Core(load_config(config, {"journal": {"folder": str(folder), "compress": False}}), folder)
    found = core.recovery.snapshot_sequence, core.command_sequence, core.market.state_hash()
    core.journal.abandon()
    return found


if __name__ == "__main__":
    print(*replay(Path(sys.argv[1]), Path(sys.argv[2])))
