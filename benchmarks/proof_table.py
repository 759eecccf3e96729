"""The tables of the proof: means over seeds by task, and the registered contrasts with t-intervals and Holm's correction."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.proof_methods import CEILING, DEFAULT
from serl.agents.students_t import effective_freedom, holm, student, tail

Found = Mapping[tuple[str, str], Sequence[float]]
"""PA on fresh days in bps of each seed, by (method, task)."""


POWER = 1.645 + 0.842
"""Normal quantiles of a one-sided test at 5 % and of a power of 80 %."""
GAPS_BPS = {"liquid": 0.460, "trending": 2.539, "informed": 0.688, "closing": 0.560, "slow": 0.650}
"""Ceiling minus default on fresh days, means of seeds 0 to 9 (docs/results.md): the room in a task, where these two have no runs of their own."""


class Estimate(NamedTuple):
    """A mean over tasks and seeds, with its 95 % t-interval."""

    mean: float
    low: float
    high: float
    p: float
    """Of the mean being 0 or less, one-sided."""
    freedom: float

    @property
    def detectable(self) -> float:
        """The smallest true mean that as many pairs find with a probability of 80 % (Cohen 1988, Statistical Power Analysis, 2.4), by the normal
        approximation and before Holm's correction, which asks for more."""
        return POWER * (self.high - self.mean) / student(self.freedom)

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


@dataclass(frozen=True)
class Contrast:
    """One method minus another, on common days."""

    first: str
    second: str

    @property
    def name(self) -> str:
        """As text."""
        return f"{self.first} - {self.second}"


def pooled(by_task: Sequence[Sequence[float]]) -> Estimate:
    """The mean over tasks of the means over seeds. Tasks are fixed strata: the variance is that of seeds within tasks, with its effective
    degrees of freedom. The sum of the tasks' would be too many where one task has most of the variance."""
    values = [np.asarray(one, np.float64) for one in by_task]
    mean = float(np.mean([one.mean() for one in values]))
    parts = [float(one.var(ddof=1)) / len(one) for one in values]
    error = math.sqrt(sum(parts)) / len(values)
    freedoms = [len(one) - 1 for one in values]
    freedom = effective_freedom(list(zip(parts, freedoms, strict=True))) or float(sum(freedoms))
    half = student(freedom) * error
    return Estimate(mean, mean - half, mean + half, tail(mean / error, freedom) if error else 0.5, freedom)


def differences(found: Found, contrast: Contrast, tasks: Sequence[str]) -> list[list[float]]:
    """By task and seed."""
    return [
        [one - other for one, other in zip(found[contrast.first, task], found[contrast.second, task], strict=True)]
        for task in tasks
    ]


def rooms_bps(found: Found, tasks: Sequence[str]) -> list[float] | None:
    """Ceiling minus default by task, means over these seeds, or else those of GAPS_BPS; None if a room is unknown or none."""
    if all((each, task) in found for each in (CEILING, DEFAULT) for task in tasks):
        rooms = [float(np.mean(found[CEILING, task]) - np.mean(found[DEFAULT, task])) for task in tasks]
    else:
        rooms = [GAPS_BPS.get(task, 0.0) for task in tasks]
    return rooms if min(rooms) > 0 else None


def in_rooms(by_task: Sequence[Sequence[float]], rooms: Sequence[float] | None) -> Estimate | None:
    """The pooled mean with each task's differences as a share of its room, so that no task outweighs the others; None without rooms. The interval takes
    the rooms as known: where they are means of a few seeds, it is too narrow."""
    if rooms is None:
        return None
    return pooled([[one / room for one in values] for room, values in zip(rooms, by_task, strict=True)])


def gap_share(found: Found, method: str, tasks: Sequence[str]) -> Estimate | None:
    """(method - default) - half of (ceiling - default): above 0 where the method closes more than half of the gap."""
    if not all((each, task) in found for each in (CEILING, DEFAULT) for task in tasks):
        return None
    return pooled([
        [own - default - (ceiling - default) / 2 for own, ceiling, default in zip(
            found[method, task], found[CEILING, task], found[DEFAULT, task], strict=True)]
        for task in tasks
    ])  # fmt: skip


def summary(found: Found, methods: Sequence[str], tasks: Sequence[str]) -> dict[str, Any]:
    """All figures as plain JSON. The first method is compared with each of the others."""
    contrasts = [Contrast(methods[0], method) for method in methods[1:] if method != CEILING]
    by_task = [differences(found, one, tasks) for one in contrasts]
    rooms = rooms_bps(found, tasks)
    estimates, shares = [pooled(one) for one in by_task], [in_rooms(one, rooms) for one in by_task]
    half = gap_share(found, methods[0], tasks)
    corrected = holm([one.p for one in estimates])
    corrected_shares = holm([one.p for one in shares if one])
    return {
        "tasks": list(tasks), "seeds": len(next(iter(found.values()))),
        "means": {method: [*map(float, [np.mean(found[method, task]) for task in tasks])] for method in methods},
        "pooled": {method: pooled([found[method, task] for task in tasks])._asdict() for method in methods},
        "rows": [_row(found, method, tasks, dict(zip([one.second for one in contrasts], zip(estimates, corrected, strict=True), strict=True))) for method in methods],
        "contrasts": [
            {"contrast": one.name, **estimate._asdict(), "p_holm": p, "detectable": estimate.detectable,
             "by_task": [str(pooled([each])) for each in values]}
            for one, estimate, p, values in zip(contrasts, estimates, corrected, by_task, strict=True)
        ],
        "of_the_room": [
            {"contrast": one.name, **share._asdict(), "p_holm": p, "detectable": share.detectable}
            for one, share, p in zip(contrasts, filter(None, shares), corrected_shares, strict=False)
        ],
        "more_than_half_of_the_gap": half._asdict() if half else None,
    }  # fmt: skip


def _row(
    found: Found, method: str, tasks: Sequence[str], compared: Mapping[str, tuple[Estimate, float]]
) -> dict[str, Any]:
    """A row of the table in the report of a run."""
    against, p = compared.get(method, (None, None))
    return {
        "variant": method, "seeds": sum(len(found[method, task]) for task in tasks), "test": pooled([found[method, task] for task in tasks])[:3],
        "difference": against[:3] if against else None, "p_holm": p,
    }  # fmt: skip


def text(summary: Mapping[str, Any]) -> str:
    """The figures as Markdown."""
    tasks = summary["tasks"]
    lines = [f"| method | {' | '.join(tasks)} | all |", "|" + "---|" * (len(tasks) + 2)]
    for method, means in summary["means"].items():
        pooled = Estimate(**summary["pooled"][method])
        lines.append(f"| {method} | {' | '.join(f'{mean:+.2f}' for mean in means)} | {pooled} |")
    lines += ["", f"| difference | {' | '.join(tasks)} | all | p (Holm) |", "|" + "---|" * (len(tasks) + 3)]
    for one in summary["contrasts"]:
        whole = Estimate(*(one[name] for name in Estimate._fields))
        lines.append(f"| {one['contrast']} | {' | '.join(one['by_task'])} | {whole} | {one['p_holm']:.4f} |")
    if summary["of_the_room"]:
        lines += ["", "| difference | of the room | p (Holm) | found with 80 % |", "|---|---|---|---|"]
        for one in summary["of_the_room"]:
            whole = Estimate(*(one[name] for name in Estimate._fields))
            lines.append(f"| {one['contrast']} | {whole} | {one['p_holm']:.4f} | {one['detectable']:.3f} |")
    if summary["more_than_half_of_the_gap"]:
        half = Estimate(**summary["more_than_half_of_the_gap"])
        lines += ["", f"{next(iter(summary['means']))} - default - half of (ceiling - default): {half}"]
    return "\n".join(lines)
