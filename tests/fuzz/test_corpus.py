"""Every fuzz target works: its kept inputs are accepted, and cut or changed ones raise nothing but the documented errors."""

from pathlib import Path

import pytest

from tests.fuzz.modules import MODULES
from tests.fuzz.targets import TARGETS, corpus


def test_every_target_has_modules_and_inputs() -> None:
    assert MODULES.keys() == TARGETS.keys()
    assert sum(path.stat().st_size for name in TARGETS for path in corpus(name)) < 200_000


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_of_the_corpus(name: str, tmp_path: Path) -> None:
    target, accepted = TARGETS[name], 0
    for path in corpus(name):
        data = path.read_bytes()
        accepted += target.run(data, tmp_path)
        for changed in (
            data[: len(data) // 2],
            data[:-1],
            b"\xff" + data[1:],
            data + b"\0",
            data.replace(b"1", b"\xb2"),
        ):
            target.run(changed, tmp_path)
    assert accepted, "none is accepted"
