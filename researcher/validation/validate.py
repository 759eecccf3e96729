"""Validation of a module, both stages."""

import threading
from pathlib import Path
from typing import Any

from serl.researcher.modules import build, specs
from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.modules.errors import SpecError
from serl.researcher.sandbox.limits import Limits
from serl.researcher.sandbox.run import Job, run, work_folder
from serl.researcher.validation.dry_run import trial
from serl.researcher.validation.findings import Finding, Reason, Report, Stage, stopped
from serl.researcher.validation.static_check import read

LIMITS = Limits(wall_s=20.0, cpu_s=20)
FINDINGS_MAX = 10

_one_trial = threading.Lock()
"""PyTorch's chance and number of threads are the process's: two trials at a time would disturb each other."""


def validate(kind: Kind, text: str, form: Form = "code", limits: Limits = LIMITS) -> Report:
    """What a module is worth. SandboxUnavailableError where code cannot be confined; specifications need no sandbox."""
    return validate_spec(kind, text) if form == "spec" else validate_code(kind, text, limits)


def validate_spec(kind: Kind, text: str) -> Report:
    """Of a specification: its schema, then what the trusted builder makes of it."""
    try:
        module = build.build(specs.parse(kind, text))
    except SpecError as error:
        return Report(kind, "spec", Stage.READ, (Finding(Reason.SPEC, str(error)),))
    with _one_trial:
        findings, call_ms = trial(kind, module)
    return Report(kind, "spec", Stage.TRIAL, tuple(findings), call_ms=call_ms)


def validate_code(kind: Kind, source: str, limits: Limits = LIMITS) -> Report:
    """Of code: its text, then a run in the sandbox."""
    findings = read(kind, source)
    if findings:
        return Report(kind, "code", Stage.READ, tuple(findings[:FINDINGS_MAX]))
    with work_folder() as folder:
        return try_in(folder, kind, source, limits)


def try_in(folder: Path, kind: Kind, source: str, limits: Limits = LIMITS) -> Report:
    """The second stage alone, in a folder of the caller's."""
    job = Job("serl.researcher.validation.entrypoints:try_code", {"kind": kind.value, "source": source})
    verdict = run(job, folder, limits)
    if not verdict.ok:
        return Report(kind, "code", Stage.TRIAL, (stopped(verdict),), verdict)
    claimed = _claimed(verdict.value)
    if claimed is None:
        text = "what the module's process gave back is not the result of a trial; do not end or change the process"
        return Report(kind, "code", Stage.TRIAL, (Finding(Reason.CONTRACT, text),), verdict)
    findings, call_ms = claimed
    return Report(kind, "code", Stage.TRIAL, findings, verdict, call_ms)


def _claimed(value: Any) -> tuple[tuple[Finding, ...], float] | None:
    """What an untrusted process says it found; None if it is not of that form."""
    try:
        findings = tuple(Finding(Reason(reason), str(text)[:1000]) for reason, text in value["findings"][:FINDINGS_MAX])
        return findings, float(value["call_ms"])
    except (TypeError, KeyError, ValueError):
        return None
