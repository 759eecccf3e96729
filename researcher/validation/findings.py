"""What is wrong with a module: sentences that whoever wrote it can act on."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.sandbox.job_result import JobResult, Outcome


class Stage(StrEnum):
    """How far a module came."""

    READ = "read"
    """Its text was looked at."""
    TRIAL = "trial"
    """It ran on recorded inputs."""


class Reason(StrEnum):
    """Why a module was turned down."""

    SYNTAX = "syntax"
    SIZE = "size"
    IMPORT = "import"
    FORBIDDEN = "forbidden"
    SIGNATURE = "signature"
    SPEC = "spec"
    CONTRACT = "contract"
    """Shapes, types, ranges."""
    NOT_FINITE = "not finite"
    NOT_DETERMINISTIC = "not deterministic"
    NO_GRADIENT = "no gradient"
    NO_SIGNAL = "no signal"
    NOT_EXPORTABLE = "not exportable"
    """Not a list of known operations on tensors, which is what a policy is made of."""
    SLOW = "slow"
    STOPPED = "stopped"
    """The sandbox ended it: see the verdict's outcome."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    reason: Reason
    text: str


@dataclass(frozen=True)
class Report:
    """What validation says of a module."""

    kind: Kind
    form: Form
    stage: Stage
    findings: tuple[Finding, ...] = ()
    verdict: JobResult | None = None
    """Of the sandbox, if it ran there."""
    call_ms: float | None = None
    """A call on recorded inputs, as the module's process claims."""

    @property
    def ok(self) -> bool:
        """Whether it may go to training."""
        return self.stage is Stage.TRIAL and not self.findings

    @property
    def text(self) -> str:
        """All findings, a line each: what to give back for repair."""
        return "\n".join(f"- {finding.text}" for finding in self.findings)


@dataclass
class Tally:
    """Reports counted, by form, kind, stage and first reason ("ok" if there is none; outcome of the sandbox if it was stopped)."""

    counts: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)

    def add(self, report: Report) -> None:
        """Counts one."""
        reason = "ok"
        if report.findings:
            first = report.findings[0].reason
            stopped = first is Reason.STOPPED and report.verdict is not None
            reason = (report.verdict.outcome if stopped and report.verdict else first).value
        self.counts[report.form, report.kind.value, report.stage.value, reason] += 1

    def rows(self) -> list[dict[str, Any]]:
        """Plain JSON, in order."""
        names = ("form", "kind", "stage", "reason")
        return [{**dict(zip(names, key, strict=True)), "count": count} for key, count in sorted(self.counts.items())]


def stopped(verdict: JobResult) -> Finding:
    """What a verdict other than OK means to the author."""
    where = "raised an error" if verdict.outcome is Outcome.CRASHED else "was stopped"
    return Finding(Reason.STOPPED, f"the module {where} when it was run: {verdict.text}")
