"""Files of order flow are summed into a bounded number of bars."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.cli_dashboard import dashboard
from serl.clients.dashboard.flow import BARS_MAX, Flow
from serl.clients.dashboard.json_lines import JsonLines

OPEN_S = 34_200


def line(second: int, kind: str = "noise", *counts: int) -> str:
    return json.dumps({"second": second, "sent": {"DEMO": {kind: list(counts or (1, 0, 0, 10))}}}) + "\n"


def test_hosts_are_summed_by_kind_of_trader(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(line(OPEN_S) + line(OPEN_S + 2, "value", 0, 3, 1, 7))
    (tmp_path / "b.jsonl").write_text(line(OPEN_S, "noise", 2, 0, 5, 1))
    flow = Flow(tmp_path)
    assert flow.read() and not flow.read()
    shown = flow.as_json("DEMO")
    assert (shown["start_s"], shown["bar_s"], shown["bars"]) == (OPEN_S, 1, 3)
    assert shown["kinds"]["noise"] == [[3, 0, 0], [0, 0, 0], [5, 0, 0], [11, 0, 0]]
    assert shown["kinds"]["value"] == [[0, 0, 0], [0, 0, 3], [0, 0, 1], [0, 0, 7]]
    assert flow.as_json("ABC")["kinds"] == {}


def test_the_accounts_of_a_kind_are_the_newest_of_each_host(tmp_path: Path) -> None:
    def holding(second: int, **accounts: list[int]) -> str:
        return json.dumps(json.loads(line(second)) | {"accounts": {"DEMO": accounts}}) + "\n"

    first = holding(OPEN_S, noise=[7, 1, -100]) + holding(OPEN_S + 1, noise=[7, 3, -250], value=[2, -3, 250])
    (tmp_path / "a.jsonl").write_text(first + line(OPEN_S + 2))
    (tmp_path / "b.jsonl").write_text(holding(OPEN_S, noise=[6, -1, 90]))
    flow = Flow(tmp_path)
    flow.read()
    assert flow.as_json("DEMO")["accounts"] == {"noise": [13, 2, -160], "value": [2, -3, 250]}
    assert flow.as_json("ABC")["accounts"] == {}
    (tmp_path / "b.jsonl").write_text(line(OPEN_S))
    while flow.read():
        pass
    assert flow.as_json("DEMO")["accounts"]["noise"] == [7, 3, -250], "another run has replaced a file"


def test_a_long_run_gets_longer_bars_and_loses_nothing(tmp_path: Path) -> None:
    seconds = range(OPEN_S, OPEN_S + 5000)
    (tmp_path / "a.jsonl").write_text("".join(map(line, seconds)))
    flow = Flow(tmp_path)
    while flow.read():
        pass
    shown = flow.as_json("DEMO")
    assert BARS_MAX / 2 <= shown["bars"] <= BARS_MAX and shown["bar_s"] == 64
    assert sum(shown["kinds"]["noise"][0]) == len(seconds)
    assert shown["kinds"]["noise"][0][1] == shown["bar_s"]


def test_only_complete_lines_are_read(tmp_path: Path) -> None:
    path, complete = tmp_path / "a.jsonl", line(OPEN_S)
    flow = Flow(tmp_path)
    assert not flow.read() and flow.as_json("DEMO")["bars"] == 0
    path.write_text(complete[:20])
    assert not flow.read()
    path.write_text(complete)
    assert flow.read() and flow.as_json("DEMO")["kinds"]["noise"][3] == [10]


def test_a_file_that_is_written_again_in_place_and_longer_begins_a_new_run(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line(OPEN_S) + line(OPEN_S + 1))
    flow, file = Flow(tmp_path), JsonLines(path)
    assert flow.read() and file.read_new()[0] is False
    path.write_text("".join(line(OPEN_S + second, "value") for second in range(40)))
    restarted, lines = file.read_new()
    assert restarted and len(lines) == 40
    while flow.read():
        pass
    assert list(flow.as_json("DEMO")["kinds"]) == ["value"]


def test_replaced_files_begin_a_new_run(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(line(OPEN_S + second) for second in range(9)))
    (tmp_path / "removed.jsonl").write_text(line(OPEN_S, "value"))
    flow = Flow(tmp_path)
    flow.read()
    path.write_text(line(OPEN_S + 60))
    (tmp_path / "removed.jsonl").unlink()
    while flow.read():
        pass
    shown = flow.as_json("DEMO")
    assert list(shown["kinds"]) == ["noise"] and (shown["start_s"], shown["bars"]) == (OPEN_S + 60, 1)


def test_a_malformed_line_is_reported(tmp_path: Path) -> None:
    for bad in (
        '{"second": 1, "sent": 7}',
        '{"second": Infinity, "sent": {}}',
        '{"second": 1, "sent": {}, "accounts": {"DEMO": {"a": [1]}}}',
        line(1).replace("10]", "NaN]").strip(),
    ):
        (tmp_path / "a.jsonl").write_text(bad + "\n" + line(OPEN_S))
        flow = Flow(tmp_path)
        flow.read()
        assert "expected a line of order flow" in flow.as_json("DEMO")["problem"]
        json.dumps(flow.as_json("DEMO"), allow_nan=False)


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    flow = Flow(tmp_path / "flow")
    flow.read()
    assert "does not exist yet" in flow.as_json("DEMO")["problem"]
    (tmp_path / "flow" / "a.jsonl").mkdir(parents=True)
    assert flow.read() and "Is a directory" in flow.as_json("DEMO")["problem"]
    assert not flow.read(), "reported once"
    (tmp_path / "flow" / "a.jsonl").rmdir()
    assert flow.read() and flow.as_json("DEMO")["problem"] == ""


@pytest.mark.parametrize(("option", "is_file"), [("--flow", True), ("--researcher", True), ("--execution", False)])
def test_a_file_instead_of_a_folder_or_the_reverse_is_refused_at_the_start(
    option: str, is_file: bool, tmp_path: Path
) -> None:
    path = tmp_path / "one"
    path.touch() if is_file else path.mkdir()
    result = CliRunner().invoke(dashboard, [option, str(path)])
    assert result.exit_code == 2 and f"'{path}' is a {'file' if is_file else 'directory'}" in result.output
