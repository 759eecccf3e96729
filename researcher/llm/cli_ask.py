"""`serl llm ask`: send one question to an endpoint."""

import json
from pathlib import Path
from typing import Any

import click

from serl.ranges import FloatRange

SERVED = "http://127.0.0.1:8080/v1"
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(epilog="Example: serl llm ask 'Which term of the reward punishes impact?' --record calls.jsonl")
@click.argument("text")
@click.option("--url", help=f"Base URL of an OpenAI-compatible endpoint  [default: that of serl llm serve, {SERVED}]")
@click.option("--model", default="tiny", show_default=True)
@click.option(
    "--dialect",
    type=click.Choice(["openai", "llama.cpp", "vllm", "embedded"]),
    help="How to send schemas and sampling parameters  [default: openai with --url, else embedded]",
)
@click.option(
    "--omit",
    multiple=True,
    type=click.Choice(["seed", "temperature", "top_p", "response_format"]),
    help="Parameter that the endpoint rejects; may be repeated.",
)
@click.option(
    "--token-limit",
    default="max_tokens",
    show_default=True,
    type=click.Choice(["max_tokens", "max_completion_tokens"]),
    help="Name of the parameter that limits the length of an answer.",
)
@click.option("--schema", type=FILE, help="JSON schema of the answer.")
@click.option("-n", default=1, show_default=True, type=click.IntRange(min=1), help="Number of answers.")
@click.option("--seed", default=0, show_default=True)
@click.option("--temperature", default=1.0, show_default=True, type=FloatRange(min=0))
@click.option("--max-tokens", default=512, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSONL file of all calls; a recorded request is answered from it.",
)
@click.option("--offline", is_flag=True, help="Answer from --record only; call no endpoint.")
def ask(
    text: str, url: str | None, model: str, dialect: str | None, omit: tuple[str, ...], token_limit: str,
    schema: Path | None, record: Path | None, offline: bool, **how: Any,
) -> None:  # fmt: skip
    """Ask TEXT and print the answers."""
    from pydantic import ValidationError

    from serl.exchange.errors import ConfigError
    from serl.exchange.invalid import describe_invalid
    from serl.researcher.llm.client import Client
    from serl.researcher.llm.settings import Endpoint

    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigError(f"--url: expected http://... or https://..., got {url}")
    values = {
        "base_url": url or SERVED,
        "model": model,
        "dialect": dialect or ("openai" if url else "embedded"),
        "omit": omit,
        "token_limit": token_limit,
    }
    try:
        endpoint = Endpoint.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"--url, --model: {describe_invalid(error, Endpoint)}") from None
    try:
        shape = json.loads(schema.read_text()) if schema else None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{schema}: expected JSON ({error})") from None
    if shape is not None and not isinstance(shape, dict):
        raise ConfigError(f"{schema}: expected a JSON schema, an object, got {type(shape).__name__}")
    answers = Client(endpoint, record=record, offline=offline).complete(
        [{"role": "user", "content": text}], schema=shape, **how
    )
    for answer in answers.answers:
        click.echo(answer.text)
    click.echo(
        f"{answers.prompt_tokens} + {answers.completion_tokens} tokens, {answers.cached} of {len(answers.answers)} from the record",
        err=True,
    )
