"""The study of minds with a model beside minds at random: who meets whom, and what it refuses."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from benchmarks import minds_study
from serl.exchange.errors import ConfigError
from serl.minds.errors import MindsError


def kinds(seed: int) -> list[str]:
    config, _ = minds_study.configured("two-stocks-week", 3, 2, seed)
    return [persona.decides for persona in config.personas]


def test_neither_kind_is_first_more_often() -> None:
    """Orders of the same time arrive in the order of the first logins."""
    config, _ = minds_study.configured("two-stocks-week", 3, 2, 1)
    assert len(config.personas) == 24 and {persona.count for persona in config.personas} == {1}
    for seed in (1, 2):
        found = kinds(seed)
        pairs = list(zip(found[::2], found[1::2], strict=True))
        assert all(set(pair) == {"model", "random"} for pair in pairs)
        assert [first for first, _ in pairs].count("model") == len(pairs) / 2
    assert kinds(1) != kinds(2)
    both = {persona.name.removesuffix("r"): persona for persona in config.personas}
    assert len(both) == 12, "a twin has the name of its mind"
    for persona in config.personas:
        assert persona.cash == both[persona.name.removesuffix("r")].cash


def test_runs_with_other_options_are_refused(tmp_path: Path) -> None:
    minds_study.begin(tmp_path, {"count": 1})
    minds_study.begin(tmp_path, {"count": 1})
    with pytest.raises(ConfigError, match=r"expected the options in .*, got others"):
        minds_study.begin(tmp_path, {"count": 2})


def test_a_run_without_the_wealth_of_a_mind_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run_minds(*_: object) -> dict[str, Any]:
        return {
            "stopped_early": False,
            "minds": [{"mind": "a-0", "final_wealth": None}, {"mind": "b-0", "final_wealth": 1.0}],
        }

    monkeypatch.setattr(minds_study, "run_minds", run_minds)
    config, place = minds_study.configured("two-stocks", 1, 1, 1)
    config = config.model_copy(update={"personas": tuple(one for one in config.personas if one.decides == "random")})
    with pytest.raises(MindsError, match="got none of a-0; run it again"):
        minds_study.played(
            config.model_copy(update={"endpoint": None, "model": "tiny"}),
            place,
            tmp_path / "seed-1",
            partial(minds_study.exchange_of, config),
        )
    assert not (tmp_path / "seed-1" / minds_study.STATISTICS).exists()
    (tmp_path / "seed-1" / minds_study.STATISTICS).write_text(json.dumps({"known": True}))
    assert minds_study.played(config, place, tmp_path / "seed-1", partial(minds_study.exchange_of, config)) == {
        "known": True
    }
