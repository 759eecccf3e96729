"""What validation calls inside the sandbox."""

from typing import Any

from serl.researcher.modules.contracts import SIGNATURES, Kind
from serl.researcher.modules.errors import ModuleError
from serl.researcher.validation.dry_run import trial


def load(kind: Kind, source: str) -> Any:
    """The function that a module's text defines, for arrays. It runs the text: inside a sandbox only."""
    names: dict[str, Any] = {"__name__": "module"}
    exec(compile(source, "<module>", "exec"), names)
    name = SIGNATURES[kind][0]
    if not callable(names.get(name)):
        raise ModuleError(f"a function `{name}` is due, the module defines none")
    if kind is Kind.COMMUNICATE:
        from serl.researcher.modules.code_messages import CodeMessages  # PyTorch takes a second to load

        return CodeMessages(names[name])
    return names[name]


def try_code(kind: str, source: str) -> dict[str, Any]:
    """Loads and tries a module: plain JSON of its findings and ms a call."""
    findings, call_ms = trial(Kind(kind), load(Kind(kind), source))
    return {"findings": [[finding.reason.value, finding.text] for finding in findings], "call_ms": call_ms}
