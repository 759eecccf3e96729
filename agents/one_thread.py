"""PyTorch with one thread: the same numbers on every machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def one_thread(torch: Any, seed: int) -> Iterator[None]:
    """PyTorch with one thread and this seed, and as it was afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
