"""What a run of the researcher imports only when it is under way."""

from serl.extras import require
from serl.researcher.outer.config import OuterConfig


def require_packages(config: OuterConfig, *, offline: bool = False) -> None:
    """MissingPackageError unless all that a run of these settings will import is installed: it is better said now than in hours."""
    needed = ["torch", "safetensors", "tensorboard"]
    if config.uses_model and not offline:
        needed += ["openai"] if config.endpoint else ["openai", "xllamacpp"]
        if config.tuned is not None:
            needed += ["gguf", "llguidance", "peft", "transformers"]
    if config.train_on == "ray":
        needed.append("ray")
    require("the researcher", *needed)
