"""Populations that come with serl, and options that take one."""

from importlib.resources import files

import click
from click.shell_completion import CompletionItem


def shipped_populations() -> list[str]:
    """Their names, sorted."""
    folder = files("serl.configs").joinpath("populations")
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


class PopulationName(click.types.StringParamType):
    """A shipped population or a YAML file. The shell completes both; `load_population` says what is wrong with another."""

    name = "population"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """See click.ParamType."""
        names = [CompletionItem(name) for name in shipped_populations() if name.startswith(incomplete)]
        return [CompletionItem(incomplete, type="file"), *names]  # files first: they make bash forget what came before


POPULATION = PopulationName()
