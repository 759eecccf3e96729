"""Validation of a module: static check, then dry run."""

import math
import threading
from pathlib import Path
from typing import Any

from serl.researcher.modules import build, specs
from serl.researcher.modules.contracts import SPEC_ONLY, Form, Kind
from serl.researcher.modules.errors import SpecError
from serl.researcher.sandbox.limits import Limits
from serl.researcher.sandbox.run import Job, run, work_folder
from serl.researcher.validation.dry_run import dry_run
from serl.researcher.validation.findings import Finding, Reason, Report, Stage, sandbox_finding
from serl.researcher.validation.static_check import check_source

LIMITS = Limits(wall_s=60.0, cpu_s=20)  # on a busy machine a job gets only a third of a processor
FINDINGS_MAX = 10

_dry_run_lock = threading.Lock()
"""PyTorch's random state and thread count belong to the process, so only one dry run at a time may use them."""


def validate(kind: Kind, text: str, form: Form = "code", limits: Limits = LIMITS) -> Report:
    """Validate a module. SandboxUnavailableError if code cannot be sandboxed here; specifications need no sandbox."""
    return validate_spec(kind, text) if form == "spec" else validate_code(kind, text, limits)


def validate_spec(kind: Kind, text: str) -> Report:
    """Validate a specification: its schema, then the function that the trusted builder makes of it."""
    try:
        module = build.build(specs.parse(kind, text))
    except SpecError as error:
        return Report(kind, "spec", Stage.STATIC_CHECK, (Finding(Reason.SPEC, str(error)),))
    with _dry_run_lock:
        findings, call_ms = dry_run(kind, module)
    return Report(kind, "spec", Stage.DRY_RUN, tuple(findings), call_ms=call_ms)


def validate_code(kind: Kind, source: str, limits: Limits = LIMITS) -> Report:
    """Validate code: its text, then a dry run in the sandbox."""
    if kind in SPEC_ONLY:
        text = f"expected a specification, got code; a {kind.value} is settings: answer with a JSON object"
        return Report(kind, "code", Stage.STATIC_CHECK, (Finding(Reason.SPEC, text),))
    findings = check_source(kind, source)
    if findings:
        return Report(kind, "code", Stage.STATIC_CHECK, tuple(findings[:FINDINGS_MAX]))
    with work_folder() as folder:
        return dry_run_in_sandbox(folder, kind, source, limits)


def dry_run_in_sandbox(folder: Path, kind: Kind, source: str, limits: Limits = LIMITS) -> Report:
    """The dry run alone, in a folder that the caller provides."""
    job = Job("serl.researcher.validation.entrypoints:dry_run_code", {"kind": kind.value, "source": source})
    result = run(job, folder, limits)
    if not result.ok:
        return Report(kind, "code", Stage.DRY_RUN, (sandbox_finding(result),), result)
    claims = _parse_claims(result.value)
    if claims is None:
        text = "the module's process did not return the result of a dry run; do not end or change the process"
        return Report(kind, "code", Stage.DRY_RUN, (Finding(Reason.CONTRACT, text),), result)
    findings, call_ms = claims
    return Report(kind, "code", Stage.DRY_RUN, findings, result, call_ms)


def _parse_claims(value: Any) -> tuple[tuple[Finding, ...], float] | None:
    """Findings and time that an untrusted process claims; None if they are malformed."""
    try:
        findings = tuple(Finding(Reason(reason), str(text)[:1000]) for reason, text in value["findings"][:FINDINGS_MAX])
        call_ms = float(value["call_ms"])
    except (TypeError, KeyError, ValueError, OverflowError, RecursionError):
        return None
    return (findings, call_ms) if 0 <= call_ms < math.inf else None
