"""--help on terminals that are narrower than the 50 columns that click writes at least."""

import shutil
from collections.abc import Iterable

import click

CLICK_COLUMNS_MIN = 50


class HelpText(click.HelpFormatter):
    """Click's own, but in fewer columns than it knows: as wide as the terminal, with descriptions below what they describe."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        columns = shutil.get_terminal_size().columns - 1
        self._narrow = columns < CLICK_COLUMNS_MIN
        super().__init__(indent_increment, columns if self._narrow else width, max_width)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """See click.HelpFormatter."""
        if self._narrow:
            self.write_text(f"{prefix or 'Usage: '}{prog} {args}")
        else:
            super().write_usage(prog, args, prefix)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """See click.HelpFormatter."""
        if not self._narrow:
            super().write_dl(list(rows), col_max, col_spacing)
            return
        for term, description in rows:
            self.write_text(term)
            with self.indentation():
                self.write_text(description)
