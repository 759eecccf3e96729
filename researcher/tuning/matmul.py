"""Matrix products of tuning on CPUs."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def onednn_matmul() -> Iterator[None]:
    """Multiply fp32 matrices with oneDNN instead of MKL, for the duration of the context, on processors where oneDNN stays in fp32.

    MKL uses half the width of an AMD processor's vectors: 110 GFLOP/s on one core where oneDNN reaches 245. PyTorch's only switch for this also
    permits oneDNN to round the factors to bf16, which it does on processors with matrix units for bf16 (AMX). MKL is kept there, because scores
    would depend on how modules are padded, and a seed would give other weights than on other processors.
    """
    if torch.cpu.get_capabilities().get("amx_bf16", False):
        yield
        return
    settings = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before
