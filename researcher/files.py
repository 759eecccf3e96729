"""Files that are there whole or not at all, whenever the process is killed."""

import json
import os
from pathlib import Path
from typing import Any


def write_json(values: Any, path: Path) -> None:
    """Writes plain values; the file appears complete."""
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("w") as file:
        json.dump(values, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
