"""The options of every command that connects to an exchange: its keys and a token."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from serl.exchange.private_files import read_token

VARIABLE = "SERL_TOKEN"

curve_option = click.option(
    "--curve",
    type=click.Path(path_type=Path),
    help="Key folder of `serl keys new` or `serl keys client`, if the exchange has keys.",
)

replace_option = click.option(
    "--replace",
    is_flag=True,
    help="End another session of the participant, such as that of a crashed run; by default the login is refused.",
)


def token_options(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds --token and --token-file to a command, which receives the token as `token`, "" if none is given. what: describes the token in the help."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            "--token", help=f"{what}, if the exchange requires one; shown by ps, so prefer --token-file. [${VARIABLE}]"
        )
        @click.option("--token-file", type=click.Path(path_type=Path, dir_okay=False), help="File with the token.")
        @functools.wraps(command)
        def with_token(token: str | None, token_file: Path | None, **options: Any) -> None:
            if token is not None and token_file is not None:
                raise click.UsageError("expected --token or --token-file, got both; leave one out")
            if token_file is not None:
                token = read_token(token_file)
            command(token=os.environ.get(VARIABLE, "") if token is None else token, **options)

        return with_token

    return add
