"""Settings of an endpoint and its budget."""

import os
from typing import Literal

from pydantic import ConfigDict, Field

from serl.exchange.errors import ConfigError
from serl.exchange.invalid import StrictSettings

Dialect = Literal["openai", "llama.cpp", "vllm", "embedded"]
Omitted = Literal["seed", "temperature", "top_p", "response_format"]
Size = Literal["tiny", "small", "large"]
TokenLimit = Literal["max_tokens", "max_completion_tokens"]

NO_KEY = "none"
"""What an endpoint is sent as the key where none is set."""


WAIT_S_MAX = 1e6
"""Longer waits are more than sockets accept on some systems."""


class Endpoint(StrictSettings):
    """An OpenAI-compatible endpoint."""

    model_config = ConfigDict(allow_inf_nan=False)

    base_url: str = Field("https://api.openai.com/v1", pattern=r"^https?://\S+$")
    model: str = Field(min_length=1)
    size: Size = Field(
        "large",
        description="tiny: specifications alone; small: also whole modules and instructions; large: also edits and notes",
    )
    context_tokens: int = Field(16_384, ge=2048, description="of a prompt and its answer; prompts are cut to fit")
    key_variable: str = Field("OPENAI_API_KEY", description="environment variable that holds the key")
    dialect: Dialect = Field(
        "openai", description="how to send grammars and sampling parameters that OpenAI's API lacks"
    )
    omit: frozenset[Omitted] = Field(
        frozenset(), description="parameters that the endpoint rejects, so they are not sent"
    )
    token_limit: TokenLimit = Field(
        "max_tokens",
        description="parameter that limits the length of an answer; OpenAI's reasoning models accept only max_completion_tokens",
    )
    timeout_s: float = Field(120.0, gt=0, le=WAIT_S_MAX, description="of one attempt")
    attempts_max: int = Field(6, ge=1)
    backoff_s: float = Field(
        0.5, ge=0, le=WAIT_S_MAX, description="wait after the first failure; doubles with each failure"
    )
    backoff_s_max: float = Field(60.0, ge=0, le=WAIT_S_MAX, description="longest wait, even if Retry-After is longer")
    usd_per_million_prompt_tokens: float = Field(0.0, ge=0)
    usd_per_million_completion_tokens: float = Field(0.0, ge=0)

    def key(self) -> str:
        """The API key from the environment. ConfigError if it is missing for api.openai.com, or if no HTTP header can contain it; local endpoints need
        none."""
        key = os.environ.get(self.key_variable, "")
        if not (key.isascii() and key.isprintable() and key == key.strip()):
            raise ConfigError(
                f"{self.key_variable}: expected a key of printable ASCII characters, got a line break, a space at an end, or another character; "
                "export the key again, without it"
            )
        if not key and "api.openai.com" in self.base_url:
            raise ConfigError(
                f"{self.key_variable}: not set; export the API key for {self.base_url}, or set another base_url"
            )
        return key or NO_KEY

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The cost of these tokens."""
        prompt = prompt_tokens * self.usd_per_million_prompt_tokens
        return (prompt + completion_tokens * self.usd_per_million_completion_tokens) / 1e6


REACHING = frozenset({
    "base_url", "key_variable", "timeout_s", "attempts_max", "backoff_s", "backoff_s_max",
    "usd_per_million_prompt_tokens", "usd_per_million_completion_tokens",
})  # fmt: skip
"""Settings of an endpoint that say how to reach it and what it costs. Its answers do not depend on them."""


class BudgetConfig(StrictSettings):
    """Limits on the total cost of a run's calls."""

    tokens_max: int | None = Field(None, gt=0, description="prompt and completion tokens, including the next call")
    usd_max: float | None = Field(None, gt=0)
