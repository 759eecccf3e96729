"""Tracing of a network beside other threads: the researcher reads proposed networks while it scores others."""

import threading

import torch
from torch import Tensor, nn

from serl.agents.learning.graphs import trace_graph

WAIT_S = 20.0


class Meeting(nn.Module):
    """A layer; it says when it is called, and waits."""

    def __init__(self, wait_s: float = WAIT_S) -> None:
        super().__init__()
        self.layer, self._wait_s = nn.Linear(2, 1), wait_s
        self.entered, self.may_leave = threading.Event(), threading.Event()

    def forward(self, observations: Tensor) -> Tensor:
        self.entered.set()
        self.may_leave.wait(self._wait_s)
        found: Tensor = self.layer(observations)
        return found


def test_networks_of_other_threads_compute_meanwhile() -> None:
    traced, other = Meeting(), nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    graphs = list[nn.Module]()
    thread = threading.Thread(target=lambda: graphs.append(trace_graph(traced)))
    thread.start()
    try:
        assert traced.entered.wait(WAIT_S)
        values = other(torch.ones(4, 2))
    finally:
        traced.may_leave.set()
        thread.join(WAIT_S)
    assert torch.equal(values, other(torch.ones(4, 2)))
    assert torch.equal(graphs[0](torch.ones(4, 2))[0], traced.layer(torch.ones(4, 2)))


def test_two_traces_leave_nothing_behind() -> None:
    before = nn.Module.__call__, nn.Module.__getattr__
    first, second = Meeting(wait_s=0.5), Meeting()
    threads = [threading.Thread(target=trace_graph, args=(each,)) for each in (first, second)]
    try:
        threads[0].start()
        assert first.entered.wait(WAIT_S)
        threads[1].start()
        threads[0].join(WAIT_S)  # it ends before the second, which waits
    finally:
        second.may_leave.set()
    threads[1].join(WAIT_S)
    assert (nn.Module.__call__, nn.Module.__getattr__) == before
