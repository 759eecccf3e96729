"""The memory that tuning needs, against a model whose peak was measured and machines of several sizes."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")

from serl.researcher.tuning import memory
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.memory import Sizes, needed_bytes, require_memory

TINY = Sizes(134_515_008, 30, 576, 1536, 49_152)
MEASURED_MIB: dict[tuple[int | None, int, int, int], int] = {
    (None, 1, 40, 40): 1107, (None, 1, 200, 40): 1357, (None, 2, 200, 40): 1781, (None, 2, 200, 160): 2433, (None, 4, 200, 160): 3988,
    (10, 1, 40, 40): 1034, (10, 1, 200, 40): 1117, (10, 2, 200, 40): 1345, (10, 2, 200, 160): 1789, (10, 4, 200, 160): 2651,
}  # fmt: skip
"""(trained layers, microbatch, prompt tokens, module tokens): peak of a process with one update without a grammar, one thread."""


@pytest.mark.parametrize("shape", MEASURED_MIB)
def test_the_estimate_is_near_the_measured_peak(shape: tuple[int | None, int, int, int]) -> None:
    estimated = needed_bytes(TINY, *shape, "code") / 2**20
    assert estimated == pytest.approx(MEASURED_MIB[shape], rel=0.15)


def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coder = Sizes(1_777_000_000, 28, 1536, 8960, 151_936)
    monkeypatch.setattr(memory, "sizes_of", lambda gguf: coder)
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * 10**9)
    with pytest.raises(
        TuningError, match=r"coder\.gguf: tuning needs about \d+\.\d GB, 8\.0 GB are available; .*microbatch \(now 2\)"
    ):
        require_memory(tmp_path / "coder.gguf", TuningConfig(microbatch=2), "code")
    monkeypatch.setattr(memory, "available_bytes", lambda: 64 * 10**9)
    require_memory(tmp_path / "coder.gguf", TuningConfig(microbatch=2), "code")


def test_available_memory_is_the_smaller_of_machine_and_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemAvailable:     500 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.available_bytes() == 500 * 1024
    (tmp_path / "memory.max").write_text("400000\n")
    (tmp_path / "memory.current").write_text("150000\n")
    (tmp_path / "memory.stat").write_text("anon 90000\nactive_file 20000\ninactive_file 30000\n")
    assert memory.available_bytes() == 300_000, "cached files can be dropped"
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_bytes() == 500 * 1024
