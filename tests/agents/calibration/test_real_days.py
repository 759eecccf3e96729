"""LOBSTER's sample days: after a few trials the population is closer to the afternoon than zero intelligence at measured rates."""

from pathlib import Path

import pytest

from serl.agents.calibration.calibrate import CalibrationPlan, calibrate
from serl.agents.calibration.days import NamedDay
from serl.agents.realism.tape import HOUR_NS
from serl.history.importing import import_day

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "lobster"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the LOBSTER sample files are not in ../shared/data/lobster"
)


@pytest.mark.long
@pytest.mark.parametrize("name", ["GOOG_2012-06-21_10", "AMZN_2012-06-21_5"])
def test_calibration_is_closer_to_the_afternoon_than_zero_intelligence(name: str, tmp_path: Path) -> None:
    day = import_day(FOLDER / f"LOBSTER_SampleFile_{name}.zip")
    plan = CalibrationPlan(name, (10 * HOUR_NS, 13 * HOUR_NS), (13 * HOUR_NS, 16 * HOUR_NS), trials=2, score_seeds=2)
    scored = calibrate([NamedDay(name, day)], plan, tmp_path / "trials").scored
    assert scored["floor"].mean_l1.mean < scored["calibrated"].mean_l1.mean < 0.25
    assert scored["calibrated"].mean_l1.mean < 0.75 * scored["baseline"].mean_l1.mean
