"""What jobs call: functions that run inside the sandbox."""

from typing import Any


def execute(source: str) -> Any:
    """Runs a text as a module; what it leaves in `answer` is the answer (plain JSON)."""
    names: dict[str, Any] = {"__name__": "module"}
    exec(compile(source, "<module>", "exec"), names)  # the sandbox is what makes this safe
    return names.get("answer")
