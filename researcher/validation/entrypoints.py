"""Functions that validation calls in the sandbox."""

from typing import Any

import numpy as np

from serl.researcher.modules.contracts import SIGNATURES, Kind
from serl.researcher.modules.errors import ModuleError
from serl.researcher.validation.dry_run import dry_run


def load(kind: Kind, source: str) -> Any:
    """The function that a module defines. Runs the module: call it in the sandbox only. The numbers that the module draws on import are always the
    same, so what is validated, trained and resumed is the same module."""
    np.random.seed(0)
    if "torch" in source:
        import torch  # takes a second

        torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "module"}
    exec(compile(source, "<module>", "exec"), names)
    name = SIGNATURES[kind][0]
    if not callable(names.get(name)):
        raise ModuleError(f"expected a function `{name}`, the module defines none")
    if kind is Kind.COMMUNICATE:
        from serl.researcher.modules.code_messages import CodeMessages  # importing PyTorch takes a second

        return CodeMessages(names[name])
    if kind is Kind.POLICY:
        from serl.researcher.modules.code_rule import CodeRule

        return CodeRule(names[name])
    return names[name]


def dry_run_code(kind: str, source: str) -> dict[str, Any]:
    """Load a module and dry-run it: its findings and milliseconds per call, as plain JSON."""
    findings, call_ms = dry_run(Kind(kind), load(Kind(kind), source))
    return {"findings": [[finding.reason.value, finding.text] for finding in findings], "call_ms": call_ms}


def trace_policy(source: str, levels: int) -> dict[str, Any]:
    """The rule that a code module defines for observations of `levels` price levels, as data."""
    rule: dict[str, Any] = code_rule(source, levels).to_json()
    return rule


def code_rule(source: str, levels: int) -> Any:
    """The rule that a code module defines for observations of `levels` price levels. Runs the module: call it in the sandbox only."""
    from serl.agents.learning.rule_policy import rule_names

    return load(Kind.POLICY, source).with_inputs(rule_names(levels)).exported()
