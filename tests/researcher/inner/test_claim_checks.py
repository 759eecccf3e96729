"""What a training job claims is checked: a lie is a verdict of the candidate, never a failure of ours."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from serl.agents.learning.custom_network import CHECKED_ROWS
from serl.agents.learning.environments import Scenario
from serl.agents.learning.errors import NotExportableError
from serl.agents.learning.graphs import Graph
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.inner import claim_checks, job, training
from serl.researcher.inner.contender import Contender
from serl.researcher.inner.errors import UnusableError
from serl.researcher.inner.evaluate import ignore_stage
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.sandbox.job_result import JobResult, Outcome

BUDGET = Budget(static_steps=160, dynamic_steps=0)
AGENT = Candidate({Kind.AGENT: Module("spec", example(Kind.AGENT, "spec"))})


@pytest.fixture(scope="module")
def honest(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder and claims of a training with a custom network."""
    folder = tmp_path_factory.mktemp("job")
    values = settings.training.model_dump(mode="json")
    claims = job.train(dataclasses.asdict(AGENT), values, dataclasses.asdict(BUDGET), 1.0, str(folder))
    return folder, json.loads(json.dumps(claims))


def policy(settings: Settings, folder: Path, claims: Any) -> Any:
    return training.policy_of(JobResult(Outcome.OK, "", claims), AGENT, settings, BUDGET, folder)


@pytest.mark.long
def test_an_honest_job_makes_a_policy(settings: Settings, honest: tuple[Path, dict[str, Any]]) -> None:
    folder, claims = honest
    assert policy(settings, folder, claims).metadata["steps"] == claims["steps"] >= BUDGET.static_steps
    assert claim_checks.facts(claims)["curve"] == claims["curve"]


@pytest.mark.parametrize(
    "steps", [-1, 10**12, 10**400, 3.5, True, "160", None, [160]], ids=lambda value: str(value)[:12]
)
def test_steps_that_no_training_took_are_refused(
    settings: Settings, honest: tuple[Path, dict[str, Any]], steps: Any
) -> None:
    with pytest.raises(UnusableError, match="steps"):
        policy(settings, honest[0], honest[1] | {"steps": steps})


@pytest.mark.parametrize("unit", [0, -1.0, 10**400, float("inf"), float("nan"), "1", None, [], True], ids=lambda value: str(value)[:12])  # fmt: skip
def test_units_that_are_no_numbers_are_refused(
    settings: Settings, honest: tuple[Path, dict[str, Any]], unit: Any
) -> None:
    scales = honest[1]["scales"] | {"depth_lots": unit}
    with pytest.raises(UnusableError):
        policy(settings, honest[0], honest[1] | {"scales": scales})


@pytest.mark.parametrize(
    "facts",
    [
        {"curve": "x"},
        {"curve": [{}] * 10},
        {"curve": [5]},
        {"curve": [dict.fromkeys(job.CURVE, "1")]},
        {"curve": [dict.fromkeys(job.CURVE, 1.0)] * 1000},
        {"ready_s": 10**400},
        {"train_s": None},
        {"train_s": -1},
    ],
    ids=lambda value: str(value)[:20],
)
def test_curves_and_times_that_are_none_are_refused(honest: tuple[Path, dict[str, Any]], facts: dict[str, Any]) -> None:
    with pytest.raises(UnusableError):
        claim_checks.facts(honest[1] | facts)


def changed_graph(claims: dict[str, Any], change: Any) -> dict[str, Any]:
    """The claims with a change of the network's graph."""
    copied: dict[str, Any] = json.loads(json.dumps(claims))
    change(copied["network"]["graph"])
    return copied


GRAPHS: dict[str, Any] = {
    "no operations": lambda graph: graph.update(nodes=[]),
    "no graph": lambda graph: graph.clear(),
    "unknown operation": lambda graph: graph["nodes"][0].__setitem__(0, "system"),
    "unknown option": lambda graph: graph["nodes"][0].__setitem__(2, {"out": 1}),
    "missing node": lambda graph: graph.update(given=[{"node": 400}, {"node": 0}]),
    "numbers for tensors": lambda graph: graph.update(given=[3, 4]),
    "one result": lambda graph: graph.update(given=graph["given"][:1]),
    "reshaped": lambda graph: reshaped(graph, [-1, 1]),
    "strange reference": lambda graph: graph.update(given=[{"node": "a"}, {"a": 1, "b": 2}]),
    "deep": lambda graph: graph["nodes"][0].__setitem__(1, json.loads("[" * 900 + "]" * 900)),
    "nodes of another kind": lambda graph: graph.update(nodes={"a": 1}),
    "too large": lambda graph: reshaped(graph, [2**40, 2**40]),
}


def reshaped(graph: dict[str, Any], shape: list[int]) -> None:
    """Reshape the first result."""
    graph["nodes"].append(["reshape", [graph["given"][0], {"tuple": shape}], {}])
    graph["given"][0] = {"node": len(graph["nodes"]) - 1}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_that_are_no_network_are_refused(
    settings: Settings, honest: tuple[Path, dict[str, Any]], name: str
) -> None:
    with pytest.raises(UnusableError):
        policy(settings, honest[0], changed_graph(honest[1], GRAPHS[name]))


@pytest.mark.parametrize("shape", [(3, -1), (3, 1)], ids=str)
def test_a_graph_that_runs_for_the_checked_number_of_rows_only_is_a_verdict_where_it_fails(shape: tuple[int, int]) -> None:  # fmt: skip
    nodes = [
        ["sum", [{"tensor": "observations"}], {"dim": 1, "keepdim": True}],
        ["reshape", [{"node": 0}, {"tuple": list(shape)}], {}],
    ]
    graph = Graph({"nodes": nodes, "given": [{"node": 1}]}, {})
    graph.check(3, 5, (3, 1))
    assert graph(torch.zeros(3, 5))[0].shape == (3, 1)
    for rows in (1, 4, 6):
        with pytest.raises(NotExportableError):
            graph(torch.zeros(rows, 5))


@pytest.mark.long
def test_a_graph_that_fails_when_it_is_scored_fails_the_candidate(
    settings: Settings, honest: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    claims = changed_graph(honest[1], lambda graph: reshaped(graph, [CHECKED_ROWS, -1]))

    def train(*_arguments: Any) -> JobResult:
        folder: Path = _arguments[4]
        folder.mkdir()
        (folder / job.NETWORK).write_bytes((honest[0] / job.NETWORK).read_bytes())
        return JobResult(Outcome.OK, "", claims)

    one = Contender(AGENT, settings, BUDGET, tmp_path / "one", ignore_stage, train)
    one.run(1.0, 0)
    assert one.failure is not None
    assert one.failure.facts["verdict"] == "no score"
    assert "graph" in one.failure.reason


@pytest.mark.parametrize("change", ["NaN", "shape", "missing", "more"])
def test_tensors_of_another_network_are_refused(
    settings: Settings, honest: tuple[Path, dict[str, Any]], tmp_path: Path, change: str
) -> None:
    tensors = load_file(honest[0] / job.NETWORK)
    name = next(name for name, values in tensors.items() if values.ndim == 2)
    if change == "NaN":
        tensors[name][...] = np.nan
    elif change == "shape":
        tensors[name] = tensors[name][:1]
    elif change == "missing":
        del tensors[name]
    else:
        tensors |= {f"x{number}": np.zeros(1, np.float32) for number in range(300)}
    save_file(tensors, tmp_path / job.NETWORK)
    with pytest.raises(UnusableError):
        policy(settings, tmp_path, honest[1])


LOOK = """
import os, sys
def reward(step):
    frame, settings, names = sys._getframe(), None, []
    while frame is not None:
        settings = frame.f_locals.get("settings") if frame.f_code.co_name == "train" else settings
        frame = frame.f_back
    found = [os.path.join(at, name) for at, _, files in os.walk("/") for name in files if name.endswith((".day", ".parquet", ".npz"))]
    raise ValueError(repr((sorted(settings), "{day}" in repr(settings), [path for path in found if "/serl/" not in path and "site-packages" not in path and path.startswith(("/inputs", "/job", "{tmp}"))])))
"""


@pytest.mark.long
@pytest.mark.usefixtures("sandboxed")
def test_a_module_sees_its_training_hours_and_nothing_of_scores(settings: Settings, tmp_path: Path) -> None:
    assert settings.day is not None
    source = LOOK.replace("{day}", str(settings.day)).replace("{tmp}", str(settings.day.parent))
    candidate = Candidate({Kind.REWARD: Module("code", source)})
    result = training.train(candidate, settings.of_seed(1), BUDGET, 1.0, tmp_path / "job")
    assert result.outcome is Outcome.CRASHED
    seen = ["agents", "dynamic", "hybrid", "imagined_share", "market", "network", "ppo", "steps_share"]
    assert repr((seen, False, ["/inputs/training.npz"])) in result.text


@pytest.mark.long
def test_days_that_are_scored_begin_at_the_runs_own_number(settings: Settings) -> None:
    from serl.researcher.inner import score

    for seed in (0, 1):
        known = settings.of_seed(seed).model_copy(update={"day": None})
        secret = known.model_copy(update={"first_scored_day": 123_456})
        days = [set(_days(score._scored(each.dynamic, each), each.scoring_part)) for each in (known, secret)]
        trained = {each.day for each in Scenario(known.dynamic).source.hours("train")}
        assert min(days[1]) - min(days[0]) == 123_456
        assert not trained & days[1]


def _days(config: Any, part: str) -> list[int]:
    return [each.day for each in Scenario(config).source.hours(part)]
