"""Matrix products of tuning on CPUs."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def onednn_matmul() -> Iterator[None]:
    """PyTorch multiplies fp32 matrices with oneDNN instead of MKL, for the duration of the context, where oneDNN keeps them in fp32.

    MKL uses half the width of an AMD processor's vectors: 110 GFLOP/s on one core where oneDNN reaches 245. The only switch that PyTorch has
    for this also permits oneDNN to round the factors to bf16, and with matrix units for bf16 (AMX) it does: there MKL stays, because scores
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
