"""What a run has made of its model, for those who serve it elsewhere."""

from pathlib import Path
from typing import Literal

from serl.researcher.llm.models import find
from serl.researcher.outer.errors import RunError
from serl.researcher.outer.low_level import states
from serl.researcher.outer.run import TUNING, open_run

ExportFormat = Literal["peft", "merged"]


def export_run(folder: Path, format: ExportFormat, output: Path) -> int:
    """Writes the model of a run as its last update left it: an adapter in peft's format, or the whole model in that of transformers.

    Returns how many updates it has had. RunError if the run has none or `output` holds anything; TuningError if the form cannot hold
    what was tuned.
    """
    database, config = open_run(folder)
    database.close()
    if config.tuned is None:
        raise RunError(f"{folder}: tuned no weights (low level off); there is nothing to export")
    saved = states(folder / TUNING)
    if not saved:
        raise RunError(f"{folder}: no update of the weights is done yet; let the run finish an iteration")
    if output.exists() and any(output.iterdir()):
        raise RunError(f"{output}: holds files already; give another --output")
    from serl.researcher.tuning.base import load_base
    from serl.researcher.tuning.export import export_merged, export_peft, require_fits_peft
    from serl.researcher.tuning.tuner import Tuner

    if format == "peft":
        require_fits_peft(config.tuned.tuning)  # better now than after the model is read
    tuner = Tuner(load_base(find(config.model)), config.tuned.tuning)
    tuner.resume(saved[-1])
    (export_peft if format == "peft" else export_merged)(tuner, output)
    return tuner.step
