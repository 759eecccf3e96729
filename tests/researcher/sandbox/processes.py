"""Find running processes."""

from pathlib import Path


def processes_of(folder: Path) -> list[str]:
    """Processes whose command line names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(path.parent.name)
    return found
