"""PyTorch's Adam without its compiler."""

import subprocess
import sys
from typing import Any

import pytest
import torch

from serl.agents.torch_adam import Adam


def trained(kind: Any, **settings: Any) -> torch.Tensor:
    """Weights after forty steps with a schedule of learning rates, of which the last twenty are those of an optimiser that was saved and loaded."""
    generator = torch.Generator().manual_seed(1)
    weights = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((4, 3), (3,))]

    def train(optimiser: Any) -> None:
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 20)
        for _ in range(20):
            optimiser.zero_grad()
            (torch.randn(8, 4, generator=generator) @ weights[0] + weights[1] - 1).square().sum().backward()
            optimiser.step()
            schedule.step()

    first, second = (kind([{"params": weights[:1], "lr": 0.1}, {"params": weights[1:]}], **settings) for _ in range(2))
    train(first)
    second.load_state_dict(first.state_dict())
    train(second)
    return torch.cat([one.detach().flatten() for one in weights])


@pytest.mark.long  # the import of PyTorch's compiler takes more than a second
def test_it_is_that_of_pytorch() -> None:
    assert torch.equal(trained(Adam), trained(torch.optim.Adam))
    ours = trained(Adam, weight_decay=0.1, decoupled_weight_decay=True)
    assert torch.equal(ours, trained(torch.optim.AdamW, weight_decay=0.1)) and not torch.equal(ours, trained(Adam))


@pytest.mark.long
def test_the_compiler_is_not_imported() -> None:
    program = (
        "import sys; from tests.agents import test_torch_adam as this; this.trained(this.Adam); "
        "assert 'torch._dynamo' not in sys.modules; this.trained(this.torch.optim.Adam); assert 'torch._dynamo' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
