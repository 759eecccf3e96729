"""Counts of what each kind of trader sends, in flow files."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from serl.agents.traders.errors import FlowFileError
from serl.agents.traders.flow_file import FlowFile, clear_flow_files, flow_file_path
from serl.agents.traders.population import check_population, load_population
from serl.agents.traders.simulate import Simulation
from serl.exchange.records import CommandFlag, CommandKind
from tests.agents.traders.test_host import agents, served

SECOND_NS = 1_000_000_000
Sent = Counter[tuple[str, str, int]]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def total(found: list[dict[str, Any]]) -> Sent:
    """Over all seconds, by symbol, kind and measure."""
    counts: Sent = Counter()
    for line in found:
        for symbol, kinds in line["sent"].items():
            for kind, values in kinds.items():
                counts.update({(symbol, kind, measure): value for measure, value in enumerate(values)})
    return +counts


def test_every_command_is_counted_once_for_its_kind(tmp_path: Path) -> None:
    """Each kind has its own symbol here, so the symbol of a command identifies the kind."""
    kinds = {"A": "hawkes", "B": "zero_intelligence", "C": "avellaneda_stoikov"}
    groups = [{"trader": kind, "symbol": place, "count": 3} for place, kind in enumerate(kinds.values())]
    population = check_population({"name": "apart", "symbols": list(kinds), "groups": groups}, "apart")
    simulation = Simulation(population, 1)
    simulation.advance(population.open_ns + 120 * SECOND_NS)
    rows = simulation.commands
    assert set(rows["symbol"]) == {0, 1, 2} and set(rows["kind"]) == {CommandKind.NEW, CommandKind.CANCEL}
    file = FlowFile(tmp_path / "flow.jsonl", population, simulation.crowd.traders.agents)
    for start in range(0, len(rows), 100):
        file.add(rows[start : start + 100])
    file.close()
    expected: Sent = Counter()
    for row in rows:
        symbol = population.symbol_names[row["symbol"]]
        new, market = row["kind"] == CommandKind.NEW, bool(row["flags"] & CommandFlag.MARKET)
        expected[symbol, kinds[symbol], (1 if market else 0) if new else 2] += 1
        expected[symbol, kinds[symbol], 3] += int(row["qty_lots"]) if new else 0
    found = lines(tmp_path / "flow.jsonl")
    assert total(found) == expected
    agents = simulation.crowd.traders.agents
    assert found[-1]["accounts"] == {
        symbol: {kinds[symbol]: [3, *(int(agents[name][agents["symbol"] == place].sum()) for name in ("position_lots", "cash_ticks"))]}
        for place, symbol in enumerate(kinds)
    }  # fmt: skip
    assert any(agents["position_lots"]) and any(agents["cash_ticks"]), "some of them traded"
    assert [line["second"] for line in found] == sorted({int(time_ns) // SECOND_NS for time_ns in rows["time_ns"]})


def test_a_second_is_written_when_it_is_complete(tmp_path: Path) -> None:
    population = load_population("small")
    simulation = Simulation(population, 1)
    simulation.advance(population.open_ns + 60 * SECOND_NS)
    rows = simulation.commands
    file = FlowFile(tmp_path / "flow.jsonl", population, simulation.crowd.traders.agents)
    file.add(rows)
    last = int(rows["time_ns"][-1]) // SECOND_NS
    assert max(line["second"] for line in lines(tmp_path / "flow.jsonl")) < last
    file.close()
    assert max(line["second"] for line in lines(tmp_path / "flow.jsonl")) == last


@pytest.mark.long
def test_hosts_count_what_they_send(tmp_path: Path) -> None:
    """Each host has its own file; files of earlier runs are deleted."""
    flow = tmp_path / "flow"
    clear_flow_files(flow, "small", 4)
    flow_file_path(flow, "small", 3).write_text("of an earlier run\n")
    with served(tmp_path, load_population("small"), 2) as exchange:
        output, _ = agents(exchange, "small", 2, "09:32", "--flow", str(flow)).communicate(timeout=300)
    sent = re.findall(r"([\d,]+) commands", output)
    assert sorted(path.name for path in flow.iterdir()) == ["traders-small-0.jsonl", "traders-small-1.jsonl"]
    both = total([line for path in flow.iterdir() for line in lines(path)])
    assert sum(count for (_, _, measure), count in both.items() if measure < 3) == int(sent[-1].replace(",", ""))
    held = [lines(path)[-1]["accounts"]["DEMO"] for path in flow.iterdir()]
    sizes = Counter({group.trader: 0 for group in load_population("small").groups})
    for group in load_population("small").groups:
        sizes[group.trader] += group.count
    assert sum((Counter({kind: traders for kind, (traders, *_) in each.items()}) for each in held), Counter()) == sizes
    assert any(position or cash for each in held for _, position, cash in each.values())
    assert {kind for _, kind, _ in both} <= {group.trader for group in load_population("small").groups}


def test_a_path_that_cannot_be_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(FlowFileError, match="expected a writable folder, got File exists"):
        clear_flow_files(tmp_path / "taken", "small", 2)
