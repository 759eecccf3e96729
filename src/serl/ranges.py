"""Ranges of numbers for options of the command line."""

import math
from typing import Any

import click

SEED_MAX = 2**63 - 1
"""Largest seed: PyTorch's generators, and the traders' compiled ones, take a signed 64-bit integer."""


class FloatRange(click.FloatRange):
    """A number in a range. click's own class accepts NaN in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See click.ParamType."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number
