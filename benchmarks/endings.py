"""How long benchmark commands end early."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from serl.exchange.errors import SerlError


@contextmanager
def one_line_endings(continued_by: str) -> Iterator[None]:
    """Ctrl-C and errors of serl end the command with one line, and with the status that a shell expects: 130 and 1."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"stopped; {continued_by}", file=sys.stderr)
        sys.exit(130)
    except SerlError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
