"""Runs on a Ray cluster: the same results as on this machine, also if a machine is lost."""

import os
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from serl.agents.backtest.seeds import Job, run_jobs
from serl.agents.calibration.costs import ParentOrders, population_costs
from serl.agents.calibration.objective import UNUSABLE_LOSS, CostTarget, TrainingMoments, Window, loss
from serl.agents.execution.policies.reactive import Participation
from serl.agents.experiments.experiment import load_experiment
from serl.agents.experiments.run import run_experiment
from serl.agents.learning.baseline_training import build_training
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import Contender, evaluate
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.parallel_rollouts import RayPart, RolloutRequest, check_cpus, make_parts
from serl.agents.learning.training import Training, TrainingConfig, environments
from serl.agents.realism.tape import build_tape
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import simulate
from serl.cli import serl
from serl.cluster import ClusterError, check_place, on_ray
from serl.exchange.errors import ConfigError
from serl.extras import MissingPackageError
from serl.minds.config import MindsConfig
from serl.minds.errors import MindsConfigError
from serl.minds.models import model_client
from serl.researcher.llm.models import MODELS
from tests.clients.dashboard.server_fixture import wait_until
from tests.server_fixture import start_exchange

start = RayPart._start
STRATEGY = """
import serl

class Buyer(serl.Strategy):
    interval_s = 60.0

    def on_wake(self, market):
        market.buy("DEMO", 1)
"""


@pytest.mark.parametrize("on", ["", "here", "ray:", "ray: ", "local:9", "rays"])
def test_a_place_is_this_machine_or_a_cluster(on: str) -> None:
    with pytest.raises(ConfigError, match="expected local, ray or ray:ADDRESS"):
        check_place(on)
    assert [check_place(one) for one in ("local", "ray", "ray:10.0.0.5:6379")] == ["local", "ray", "ray:10.0.0.5:6379"]


def test_without_ray_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"pip install -e '\.\[ray\]'"):
        next(on_ray({1: partial(int, 1)}, "ray"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["experiment", "tick-size", "--on", "moon"], "expected local, ray or ray:ADDRESS, got 'moon'"),
        (["experiment", "tick-size", "--on", "ray", "--threads", "2"], "expected --threads or --on ray, got both"),
        (["backtest", "bot.py", "--population", "small", "--on", "ray:", "--seeds", "2"], "expected local, ray"),
        (["backtest", "bot.py", "--population", "small", "--on", "ray", "--workers", "2"], "expected --workers or --on ray"),
        (["calibrate", "a.day", "-o", "a.yaml", "--on", "moon"], "expected local, ray or ray:ADDRESS, got 'moon'"),
        (["evaluate", "pov", "--on", "moon"], "expected local, ray or ray:ADDRESS, got 'moon'"),
        (["train", "dynamic", "--on", "moon"], "expected local, ray or ray:ADDRESS, got 'moon'"),
        (["researcher", "start", "--on", "cloud"], "expected local, ray or ray:ADDRESS, got 'cloud'"),
    ],
)  # fmt: skip
def test_wrong_places_are_errors_of_one_line(options: list[str], error: str) -> None:
    done = CliRunner().invoke(serl, options)
    assert done.exit_code and error in f"{done.output}{done.exception}"


def test_a_cluster_that_is_not_there_is_an_error() -> None:
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    if ray.is_initialized():
        pytest.skip("a cluster is connected")
    with pytest.raises(ClusterError, match="Ray does not start"):
        next(on_ray({1: partial(int, 1)}, "ray:not an address"))


@pytest.fixture(scope="module")
def cluster() -> Any:
    """Two nodes on this machine, each with one CPU, and the cluster's address."""
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    import ray
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    found.second = found.add_node(num_cpus=1)
    try:
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


@pytest.mark.long
def test_a_cluster_of_two_nodes_gives_the_same(cluster: Any, tmp_path: Path) -> None:
    on = f"ray:{cluster.address}"
    nodes = {node for _, node in on_ray({number: partial(_node, 0.5) for number in range(8)}, on)}
    assert len(nodes) == 2, "both nodes work"

    experiment = load_experiment("tick-size", 2, "09:32")
    assert repr(run_experiment(experiment, on=on)) == repr(run_experiment(experiment)), "bit for bit, NaN too"

    file = tmp_path / "buyer.py"
    file.write_text(STRATEGY)
    settings = load_population("small").model_dump()
    jobs = [Job(file, "Buyer", settings, None, seed, (34_200 * 10**9, 34_500 * 10**9), None, 1.0) for seed in (1, 2, 3)]
    there, here = ({int(one.settings["seed"]): one for one in run_jobs(jobs, 1, place)} for place in (on, "local"))
    for one, other in ((there[seed], here[seed]) for seed in (1, 2, 3)):
        assert len(one.fill_rows) and (one.fill_rows == other.fill_rows).all()
        assert (one.mids == other.mids).all() and (one.decisions, one.counts) == (other.decisions, other.counts)

    scenario = Scenario(
        MarketConfig(kind="dynamic", population="small", simulated_days=2, environments=4, duration_s=60)
    )
    contenders = [Contender("pov", Participation(), "market")]
    tables = [evaluate(scenario, contenders, 8, 1, on=place).rows for place in (on, "local")]
    for one, other in zip(*tables, strict=True):
        assert one.name == other.name and (one.actions == other.actions).all()
        for name, values in one.columns.items():
            assert np.array_equal(values, other.columns[name], equal_nan=True)

    small = load_population("small")
    hours = small.open_ns + 600 * 10**9, small.open_ns + 2400 * 10**9
    moments = TrainingMoments.measure([Window(build_tape(simulate(small, 9, hours[1]), 5).window(*hours), *hours)])
    orders = ParentOrders(*hours, 50.0, 2)
    target = CostTarget(population_costs(small, [9], orders), orders)
    losses = [loss(small, [1, 2, 3], moments, target, place) for place in (on, "local")]
    assert losses[0] == losses[1] and 0 < losses[0][1] < losses[0][0] < UNUSABLE_LOSS

    with pytest.raises(ZeroDivisionError):
        list(on_ray({1: partial(divmod, 1, 0)}, on))


@pytest.mark.long
def test_rollouts_are_the_same_when_a_machine_is_lost(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One part is on each node. One is lost in the middle of the episodes, then a process on the other."""
    import ray

    market = {"kind": "dynamic", "population": "small", "simulated_days": 2, "environments": 4, "duration_s": 60}
    ppo = {"steps": 10_000, "rollout_steps": 8, "minibatch": 32, "epochs": 1, "rollout_parts": 2}
    config = TrainingConfig.model_validate({"market": market, "ppo": ppo, "network": {"hidden": [8]}})
    started: list[RayPart] = []
    monkeypatch.setattr(RayPart, "_start", lambda self, num_cpus: (started.append(self), start(self, num_cpus)))
    learners = []
    for on in ("local", f"ray:{cluster.address}"):
        envs, metadata = environments(config)
        run = build_training(config, envs, tmp_path, metadata, on)
        assert isinstance(run, Training)
        run.learner.reset()
        learners.append(run.learner)
    here, there = learners
    for update in range(6):
        if update == 2:
            cluster.remove_node(cluster.second, allow_graceful=False)
        if update == 4:
            kept = min(started, key=lambda part: sum(each is part for each in started))
            ray.kill(kept._actor)
        for learner in learners:
            learner.update()
        assert here.network.vector.equal(there.network.vector), update
    assert min(Counter(map(id, started)).values()) >= 2 and len(set(map(id, started))) == 2, "both were made again"
    there.reset()
    here.reset()
    assert all((here.update()["returns"] == there.update()["returns"]).all() for _ in range(8))
    cluster.second = cluster.add_node(num_cpus=1)


@pytest.mark.long
def test_more_parts_than_cpus_are_refused_and_parts_say_what_is_wrong(cluster: Any) -> None:
    """Of all markets together, which would wait for each other."""
    on = f"ray:{cluster.address}"
    with pytest.raises(ClusterError, match=r"as the cluster has CPUs \(2\), got 3; use fewer"):
        check_cpus(3, on)
    make: Any = partial(divmod, 1, 0)
    (part,) = make_parts([make], on)
    part.reset(1)
    part.begin(RolloutRequest(np.zeros(1, np.float32), 1, 1.0, 1.0))
    with pytest.raises(ZeroDivisionError):
        part.finish()


@pytest.mark.long
@pytest.mark.skipif(not MODELS["tiny"].path.exists(), reason="needs the model: serl llm fetch tiny")
def test_minds_decide_the_same_when_the_server_of_their_model_is_lost(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the actor is killed in the middle of a call."""
    import ray

    from serl.minds.model_actors import RemoteServer

    asked: list[Any] = []
    ask = RemoteServer.ask

    def ask_and_kill(self: RemoteServer, request: Any, attempts: Any) -> Any:
        asked.append(self.actor)
        if len(asked) == 2:
            threading.Timer(0.5, ray.kill, (self.actor,)).start()
        return ask(self, request, attempts)

    monkeypatch.setattr(RemoteServer, "ask", ask_and_kill)
    config = {
        "name": "small",
        "model": "tiny",
        "hours": "09:30-09:33",
        "prices": {"AMZN": 100},
        "personas": [{"name": "one"}],
    }
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(config))
    decisions = []
    for on in ("local", f"ray:{cluster.address}"):
        output = tmp_path / on.partition(":")[0]
        with start_exchange(symbols="AMZN", clock="lockstep") as served:
            options = ["--config", str(tmp_path / "small.yaml"), "--connect", served.endpoint, "--output", str(output)]
            done = CliRunner().invoke(serl, ["minds", "start", *options, "--on", on])
        assert done.exit_code == 0, (done.output, done.exception)
        decisions.append((output / "decisions.jsonl").read_text())
    assert decisions[0] == decisions[1] and decisions[0].count("\n") >= 4
    assert len(asked) == 3 and asked[0] is asked[1] is not asked[2], "another actor repeated the second call"


@pytest.mark.long
def test_more_threads_of_servers_than_cpus_are_refused(cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `researcher` is not installed")
    config = MindsConfig.model_validate(
        {"model": "tiny", "servers": 3, "duration_s": 60, "personas": [{"name": "one"}]}
    )
    with (
        pytest.raises(ClusterError, match=r"as the cluster has CPUs \(2\), got 3; use fewer"),
        model_client(config, tmp_path / "calls.jsonl", offline=False, on=f"ray:{cluster.address}"),
    ):
        pass


def test_an_endpoint_has_nothing_to_run_on_a_cluster(tmp_path: Path) -> None:
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "model": "x"}
    config = MindsConfig.model_validate({"endpoint": endpoint, "duration_s": 60, "personas": [{"name": "one"}]})
    with (
        pytest.raises(MindsConfigError, match=r"--on ray: expected a model that serl serves .* got the endpoint http"),
        model_client(config, tmp_path / "calls.jsonl", offline=False, on="ray"),
    ):
        pass


@pytest.mark.long
def test_the_jobs_of_a_lost_node_are_repeated(cluster: Any, tmp_path: Path) -> None:
    on = f"ray:{cluster.address}"
    jobs = {number: partial(_leave_mark, tmp_path, number) for number in range(4)}
    found = on_ray(jobs, on)
    first = dict([next(found)])
    wait_until(lambda: len(list(tmp_path.iterdir())) == len(jobs), "all are begun")
    cluster.remove_node(cluster.second, allow_graceful=False)
    assert first | dict(found) == {number: number for number in jobs}
    assert len(list(tmp_path.iterdir())) > len(jobs), "one was begun twice"


def _node(wait_s: float) -> str:
    import ray

    time.sleep(wait_s)
    return str(ray.get_runtime_context().get_node_id())


def _leave_mark(folder: Path, number: int) -> int:
    (folder / f"{number}-{os.getpid()}").touch()
    time.sleep(2.0)
    return number
