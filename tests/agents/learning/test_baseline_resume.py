"""Runs of the baselines that are interrupted and resumed."""

from pathlib import Path
from typing import Any

import pytest
import torch

from serl.agents.learning.errors import PolicyFileError
from serl.agents.learning.training import CHECKPOINT, POLICY
from tests.agents.learning.test_baselines import run
from tests.agents.learning.test_training import stop_at

SHORT: dict[str, dict[str, Any]] = {
    "opd": {"count": 8, "epochs": 2, "steps": 8 * 6 * 8, "teacher_share": 0.55},
    "halop": {"count": 16, "steps": 16 * 6 * 8, "warm_up": 200, "buffer": 250},
    "macmic": {"count": 8, "epochs": 2, "steps": 8 * 12 * 8, "warm_share": 0.55},
}
"""Eight updates; of what changes in training, some comes before and some after the interruption."""


@pytest.mark.parametrize("kind", SHORT)
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, kind: str) -> None:
    for name in ("whole", "parts", "other"):
        (tmp_path / name).mkdir()
    through = run(kind, tmp_path / "whole", **SHORT[kind])
    through.run()
    with pytest.raises(KeyboardInterrupt):
        run(kind, tmp_path / "parts", **SHORT[kind]).run(stop_at(5))
    (tmp_path / "parts" / POLICY).unlink(missing_ok=True)
    resumed = run(kind, tmp_path / "parts", **SHORT[kind])
    resumed.resume()
    assert resumed.updates == 3 and resumed.learner.steps == 3 * through.learner.steps // 8
    resumed.run()
    assert (tmp_path / "parts" / POLICY).read_bytes() == (tmp_path / "whole" / POLICY).read_bytes()
    before, after = through.learner.state_dict(), resumed.learner.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    other = run(kind, tmp_path / "other", seed=1, **SHORT[kind])
    other.run()
    assert not all(torch.equal(tensor, other.learner.state_dict()[name]) for name, tensor in before.items())


def test_a_finished_run_is_resumed_without_another_update(tmp_path: Path) -> None:
    run("opd", tmp_path, **SHORT["opd"]).run()
    before = (tmp_path / POLICY).read_bytes()
    again = run("opd", tmp_path, **SHORT["opd"])
    again.resume()
    again.run(stop_at(1))
    assert (tmp_path / POLICY).read_bytes() == before


def test_a_checkpoint_of_other_data_or_networks_is_refused(tmp_path: Path) -> None:
    for kind in SHORT:
        (tmp_path / kind).mkdir()
        with pytest.raises(KeyboardInterrupt):
            run(kind, tmp_path / kind, **SHORT[kind]).run(stop_at(1))
        with pytest.raises(
            PolicyFileError, match=r"expected the data that the run began with, \['a', ''\], got \['b', ''\]"
        ):
            run(kind, tmp_path / kind, data="b").resume()
        for other in SHORT.keys() - {kind}:
            with pytest.raises(PolicyFileError, match="expected the network of the settings, got another network"):
                run(other, tmp_path / kind).resume()
    with pytest.raises(PolicyFileError, match="expected the network of the settings, got another network"):
        run("macmic", tmp_path / "macmic", units=8).resume()
    (tmp_path / "opd" / CHECKPOINT).unlink()
    with pytest.raises(PolicyFileError, match=f"{CHECKPOINT}: cannot be read as a checkpoint file"):
        run("opd", tmp_path / "opd").resume()
