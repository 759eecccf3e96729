"""Runs independent jobs on this machine, or as tasks on a Ray cluster (`--on`). The results are the same."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from serl.exchange.errors import ConfigError, SerlError
from serl.extras import require

LOCAL, RAY = "local", "ray"
LOSSES_MAX, PAUSE_S = 3, 5.0
"""Maximum number of repetitions in `repeated`, and the pause before each in seconds, times the number of earlier losses."""
Key = TypeVar("Key")
Result = TypeVar("Result")


class ClusterError(SerlError):
    """The cluster cannot be reached, or lost a run more often than it is repeated."""


def check_place(on: str) -> str:
    """`on`, if it is a valid place: `local`, `ray` (the cluster that RAY_ADDRESS names, or else one that Ray starts on this machine) or
    `ray:ADDRESS`. Raises ConfigError otherwise."""
    kind, colon, address = on.partition(":")
    if on != LOCAL and (kind != RAY or (colon and not address.strip())):
        raise ConfigError(
            f"--on: expected local, ray or ray:ADDRESS, got {on!r}; an address looks like ray:10.0.0.5:6379"
        )
    return on


def on_option(text: str) -> Any:
    """The option --on of a command; None if it is not given, so that the command chooses the default."""

    def checked(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        return None if value is None else check_place(value)

    return click.option("--on", metavar="local|ray[:ADDRESS]", callback=checked, help=text)


def check_alone(on: str | None, option: str, value: int | None) -> None:
    """UsageError if a number of processes or threads of this machine is given together with a cluster, which has its own number of CPUs."""
    if on not in (None, LOCAL) and value is not None:
        raise click.UsageError(
            f"expected {option} or --on {on}, got both; leave out {option}: a cluster has its own number of CPUs"
        )


def ray_at(on: str) -> Any:
    """The module `ray`, connected to a cluster. MissingPackageError if it is not installed, ClusterError if there is no such cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    require("runs on a cluster", "ray")
    import ray

    address = check_place(on).partition(":")[2] or None
    try:
        if not ray.is_initialized():
            ray.init(address=address, include_dashboard=False if address is None else None, log_to_driver=False)
    except Exception as error:
        advice = f"check {address}" if address else "check RAY_ADDRESS"
        raise ClusterError(f"Ray does not start: {str(error)[:300]}; {advice}, or omit --on {on}") from error
    return ray


def ray_result(reference: Any, advice: str) -> Any:
    """Waits for a task and returns its result. Raises what the task raised, or ClusterError with `advice` if the cluster lost it."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise ClusterError(f"Ray: {str(error)[:300]}; {advice}") from error


def repeated(result: Callable[[], Result], restart: Callable[[], object]) -> Result:
    """Returns what `result` returns. After a ClusterError, calls `restart` and tries again, up to LOSSES_MAX times. It pauses before all restarts but
    the first, because a cluster may not have noticed yet that a machine is gone."""
    for losses in range(LOSSES_MAX):
        try:
            return result()
        except ClusterError:
            time.sleep(PAUSE_S * losses)
            restart()
    return result()


def on_ray(jobs: Mapping[Key, Callable[[], Result]], on: str) -> Iterator[tuple[Key, Result]]:
    """Yields (key, result) of each job as soon as it is ready. A job takes one CPU. If its machine is lost, it is repeated elsewhere, up to three times.

    Jobs are pickled: files that they name must exist under the same paths on all machines. Raises what a job raises.
    """
    ray = ray_at(on)
    task = ray.remote(num_cpus=1)(_call)
    waiting = {task.remote(job): key for key, job in jobs.items()}
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting))
            for reference in ready:
                yield waiting.pop(reference), ray_result(reference, "run it again")
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)


def _call(job: Callable[[], Result]) -> Result:
    return job()
