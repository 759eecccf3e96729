"""`serl llm ask`: one question to an endpoint, recorded if wanted."""

import json
from pathlib import Path
from typing import Any

import click

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(epilog="Example: serl llm ask 'Which term of the reward punishes impact?' --record calls.jsonl")
@click.argument("text")
@click.option("--url", default="http://127.0.0.1:8080/v1", show_default=True, help="Of an OpenAI-compatible endpoint.")
@click.option("--model", default="tiny", show_default=True)
@click.option(
    "--dialect", default="embedded", show_default=True, type=click.Choice(["openai", "llama.cpp", "vllm", "embedded"])
)
@click.option("--schema", type=FILE, help="JSON schema of the answer.")
@click.option("-n", default=1, show_default=True, type=click.IntRange(min=1), help="Answers.")
@click.option("--seed", default=0, show_default=True)
@click.option("--temperature", default=1.0, show_default=True, type=click.FloatRange(min=0))
@click.option("--max-tokens", default=512, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--record", type=click.Path(path_type=Path, dir_okay=False), help="JSONL of all calls; answers come from it."
)
@click.option("--offline", is_flag=True, help="Answer from the record alone.")
def ask(text: str, url: str, model: str, schema: Path | None, record: Path | None, offline: bool, **how: Any) -> None:
    """Asks TEXT and prints the answers."""
    from serl.exchange.errors import ConfigError
    from serl.researcher.llm.client import Client
    from serl.researcher.llm.settings import Endpoint

    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--url: http://... or https://... is due, got {url}")
    endpoint = Endpoint(base_url=url, model=model, dialect=how.pop("dialect"))
    try:
        shape = json.loads(schema.read_text()) if schema else None
    except ValueError as error:
        raise ConfigError(f"{schema}: is no JSON ({error})") from None
    answers = Client(endpoint, record=record, offline=offline).complete(
        [{"role": "user", "content": text}], schema=shape, **how
    )
    for answer in answers.answers:
        click.echo(answer.text)
    click.echo(
        f"{answers.prompt_tokens} + {answers.completion_tokens} tokens, {answers.cached} of {len(answers.answers)} from the record",
        err=True,
    )
