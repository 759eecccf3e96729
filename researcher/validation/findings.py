"""Findings of validation: sentences that the author of a module can act on."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.sandbox.job_result import JobResult, Outcome


class Stage(StrEnum):
    """The stage of validation that a module reached."""

    STATIC_CHECK = "static check"
    """Its text was checked without running it."""
    DRY_RUN = "dry run"
    """It ran on recorded inputs."""


class Reason(StrEnum):
    """Why a module is invalid."""

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
    """Cannot be traced to the list of tensor operations that a policy file may contain."""
    PAYS_FOR_NOTHING = "pays for nothing"
    """A reward that no action can change."""
    NEVER_TRADES = "never trades"
    TOUCHES_TIME = "touches time"
    TOUCHES_FILES = "touches files"
    TOUCHES_SCORER = "touches the scorer"
    TOUCHES_SEEDS = "touches the seeds"
    SLOW = "slow"
    STOPPED = "stopped"
    """The sandbox stopped it; see the outcome of `sandbox_result`."""


@dataclass(frozen=True)
class Finding:
    """One violation."""

    reason: Reason
    text: str


@dataclass(frozen=True)
class Report:
    """The result of validating a module."""

    kind: Kind
    form: Form
    stage: Stage
    findings: tuple[Finding, ...] = ()
    sandbox_result: JobResult | None = None
    """Set if the module ran in the sandbox."""
    call_ms: float | None = None
    """Milliseconds per call on recorded inputs, as the module's process claims."""

    @property
    def ok(self) -> bool:
        """Whether the module may be used in training."""
        return self.stage is Stage.DRY_RUN and not self.findings

    @property
    def text(self) -> str:
        """The findings, one per line, to send back for repair."""
        return "\n".join(f"- {finding.text}" for finding in self.findings)


@dataclass
class Tally:
    """Counts of reports by form, kind, stage and first reason ("ok" without findings; the sandbox's outcome if it stopped the module)."""

    counts: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)

    def add(self, report: Report) -> None:
        """Count a report."""
        reason = "ok"
        if report.findings:
            first = report.findings[0].reason
            stopped = first is Reason.STOPPED and report.sandbox_result is not None
            reason = (report.sandbox_result.outcome if stopped and report.sandbox_result else first).value
        self.counts[report.form, report.kind.value, report.stage.value, reason] += 1

    def rows(self) -> list[dict[str, Any]]:
        """The counts as plain JSON, sorted."""
        names = ("form", "kind", "stage", "reason")
        return [{**dict(zip(names, key, strict=True)), "count": count} for key, count in sorted(self.counts.items())]


def sandbox_finding(result: JobResult) -> Finding:
    """A failed sandbox job as a finding for the author."""
    where = "raised an error" if result.outcome is Outcome.CRASHED else "was stopped by the sandbox"
    return Finding(Reason.STOPPED, f"the module {where}: {result.text}")
