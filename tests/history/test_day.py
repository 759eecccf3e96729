"""Day files: the round trip, and files that are none."""

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from serl.exchange.errors import UnwritableFileError
from serl.exchange.records import ALL_SYMBOLS, COMMAND, CommandKind
from serl.history.day import (
    KEY,
    Day,
    Reference,
    SourceFile,
    SymbolReference,
    day_writer,
    read_blocks,
    read_day,
    read_reference,
    select_symbol,
    write_day,
)
from serl.history.errors import DayOfAccounts, DayTruncated, DayVersionError, ExportError, NotADayFile
from serl.history.generate import generate_day


@pytest.fixture
def day() -> Day:
    random = np.random.default_rng(1)
    commands = np.zeros(1000, COMMAND)
    for name in ("order_id", "price_ticks", "qty_lots"):
        commands[name] = random.integers(0, 1 << 40, 1000)
    commands["time_ns"] = np.sort(random.integers(0, 86_400 * 10**9, 1000))
    commands["command_id"] = np.arange(1, 1001)
    for name, high in (("symbol", 65_535), ("kind", 19), ("side", 1), ("time_in_force", 3), ("flags", 3)):
        commands[name] = random.integers(0, high, 1000, endpoint=True)
    reference = Reference(
        symbols=(SymbolReference("A", "0.5", "0.001"), SymbolReference("B")), date="2020-01-02", source="lobster",
        files=(SourceFile("a.zip", "00ff"),), first_time_ns=1, last_time_ns=2, levels=3, source_rows=4,
        counts={"unexplained": 5}, parameters={"seed": 6},
    )  # fmt: skip
    return Day(commands, np.arange(-1, 999), reference)


def rewrite(path: Path, **changes: object) -> None:
    table = pq.read_table(path)
    values = json.loads(pq.read_metadata(path).metadata[KEY])
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(values | changes).encode()}), path)


def test_round_trip(day: Day, tmp_path: Path) -> None:
    write_day(day, tmp_path / "a.parquet")
    again = read_day(tmp_path / "a.parquet")
    assert again.commands.dtype == COMMAND and again.commands.tobytes() == day.commands.tobytes()
    assert np.array_equal(again.rows, day.rows)
    assert again.reference == day.reference
    assert read_reference(tmp_path / "a.parquet") == (day.reference, 1000)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.parquet"], "no temporary files remain"


def test_a_day_of_several_participants(day: Day, tmp_path: Path) -> None:
    """Has its own version, so that earlier programs refuse it; who is not prepared for it must not take it for the orders of one."""
    path = tmp_path / "a.parquet"
    accounts = replace(day, reference=replace(day.reference, participants=("exchange", "ann")))
    accounts.commands["participant"], accounts.commands["reason"] = np.arange(1000) % 2, 3
    write_day(accounts, path)
    assert json.loads(pq.read_metadata(path).metadata[KEY])["version"] == 2
    again = read_day(path, accounts=True)
    assert again.commands.tobytes() == accounts.commands.tobytes() and again.reference == accounts.reference
    assert np.concatenate(list(read_blocks(path))).tobytes() == accounts.commands.tobytes()
    with pytest.raises(DayOfAccounts, match="expected a day of one participant, got the commands of 2"):
        read_day(path)


def test_fields_of_earlier_and_later_programs(day: Day, tmp_path: Path) -> None:
    write_day(day, tmp_path / "a.parquet")
    values = json.loads(pq.read_metadata(tmp_path / "a.parquet").metadata[KEY])
    del values["participants"]
    assert Reference.from_json(values | {"weather": "fine"}) == day.reference


def test_damaged_reference_data(day: Day, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_day(day, path)
    table, values = pq.read_table(path), json.loads(pq.read_metadata(path).metadata[KEY])
    without = {name: value for name, value in values.items() if name != "files"}
    for damaged in ([], {}, without, values | {"symbols": 5}, values | {"symbols": [["A"]]}):
        pq.write_table(table.replace_schema_metadata({KEY: json.dumps(damaged).encode()}), path)
        with pytest.raises(NotADayFile, match="its reference data is damaged"):
            read_day(path)
    pq.write_table(table.replace_schema_metadata({KEY: b"[" * 10**5}), path)
    with pytest.raises(NotADayFile, match="its reference data is damaged"):
        read_day(path)
    data = bytearray(path.read_bytes())
    data[-200:-8] = bytes(192)
    path.write_bytes(data)
    with pytest.raises(DayTruncated, match="its Parquet footer is damaged"):
        read_day(path)


def test_a_file_without_reference_data_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="cannot be read"), day_writer(tmp_path / "a.parquet"):
        pass
    assert not list(tmp_path.iterdir())


def test_failed_write_leaves_the_old_file(day: Day, tmp_path: Path) -> None:
    write_day(day, tmp_path / "a.parquet")
    before = (tmp_path / "a.parquet").read_bytes()
    bad = replace(day, reference=replace(day.reference, counts={"x": object()}))  # pyrefly: ignore[bad-assignment]
    with pytest.raises(TypeError):
        write_day(bad, tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(UnwritableFileError, match="give a file in a folder that exists"):
        write_day(day, tmp_path / "none" / "a.parquet")


def test_not_a_day_file(day: Day, tmp_path: Path) -> None:
    with pytest.raises(NotADayFile, match="cannot be read"):
        read_day(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("time,price\n")
    with pytest.raises(NotADayFile, match="not a day file"):
        read_day(tmp_path / "text.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(NotADayFile, match="Parquet, but not a day file"):
        read_day(tmp_path / "other.parquet")
    write_day(day, tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    less = table.drop_columns(["row", "side"])
    pq.write_table(less.replace_schema_metadata({KEY: day.reference.to_json(1000)}), tmp_path / "less.parquet")
    with pytest.raises(NotADayFile, match="columns side, row are missing"):
        read_day(tmp_path / "less.parquet")
    pq.write_table(table.replace_schema_metadata({KEY: b"{"}), tmp_path / "json.parquet")
    with pytest.raises(NotADayFile, match="reference data is damaged"):
        read_day(tmp_path / "json.parquet")


def test_a_day_of_one_symbol_keeps_what_is_of_all_symbols(day: Day) -> None:
    commands = np.zeros(4, COMMAND)
    commands["kind"] = [CommandKind.NEW, CommandKind.NEW, CommandKind.MASS_CANCEL, CommandKind.END_DAY]
    commands["symbol"], commands["command_id"] = [0, 1, ALL_SYMBOLS, 0], np.arange(1, 5)
    found = select_symbol(Day(commands, np.arange(4), day.reference), "B")
    assert (found.rows.tolist(), found.commands["command_id"].tolist()) == ([1, 2, 3], [2, 3, 4])
    assert found.commands["symbol"].tolist() == [0, ALL_SYMBOLS, 0]
    assert [symbol.name for symbol in found.reference.symbols] == ["B"] and commands["symbol"][1] == 1
    assert not found.reference.parameters, "the hash of a tape is that of all symbols"
    with pytest.raises(ExportError, match="--symbol: expected one of A, B, got C"):
        select_symbol(day, "C")


def test_other_version(day: Day, tmp_path: Path) -> None:
    write_day(day, tmp_path / "a.parquet")
    rewrite(tmp_path / "a.parquet", version=99)
    with pytest.raises(DayVersionError, match="expected a day file of version 2 or older, got version 99"):
        read_day(tmp_path / "a.parquet")


@pytest.mark.parametrize("bytes_kept", [4, 8, 11, 500, -1])
def test_truncated(day: Day, tmp_path: Path, bytes_kept: int) -> None:
    write_day(day, tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(data[:bytes_kept])
    with pytest.raises(DayTruncated, match="ends too early"):
        read_day(tmp_path / "a.parquet")


def test_a_name_in_another_encoding_is_no_damage(day: Day, tmp_path: Path) -> None:
    """The user was told to import an undamaged file again."""
    write_day(day, tmp_path / "a.parquet")
    path = (tmp_path / "a.parquet").rename(tmp_path / os.fsdecode(b"\xfc.parquet"))
    with pytest.raises(NotADayFile, match="expected a name in UTF-8, got another encoding; rename the file"):
        read_day(path)


def test_damaged_in_the_middle(day: Day, tmp_path: Path) -> None:
    write_day(day, tmp_path / "a.parquet")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[4:400] = bytes(396)
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(DayTruncated, match="rows cannot be read"):
        read_day(tmp_path / "a.parquet")


def test_other_rows_than_declared(day: Day, tmp_path: Path) -> None:
    write_day(day, tmp_path / "a.parquet")
    for declared in (1001, 999):
        rewrite(tmp_path / "a.parquet", commands=declared)
        with pytest.raises(DayTruncated, match=f"expected {declared} commands, got 1000"):
            read_day(tmp_path / "a.parquet")


def test_no_flipped_bit_reads_as_other_commands(day: Day, tmp_path: Path) -> None:
    """Pages have checksums: most flips of the compressed numbers are valid otherwise. A file without checksums is read too."""
    path, random = tmp_path / "a.parquet", np.random.default_rng(1)
    write_day(day, path)
    good = path.read_bytes()
    for at in random.integers(4, pq.read_metadata(path).row_group(0).total_byte_size // 2, 40):
        data = bytearray(good)
        data[at] ^= 1 << int(random.integers(8))
        path.write_bytes(data)
        for read in (lambda: read_day(path).commands, lambda: np.concatenate(list(read_blocks(path)))):
            with suppress(DayTruncated):
                assert read().tobytes() == day.commands.tobytes()
    path.write_bytes(good)
    rewrite(path)
    assert read_day(path).commands.tobytes() == day.commands.tobytes()


def test_small_blocks_are_written_together(tmp_path: Path) -> None:
    """A recording in lockstep had a row group for each message of the feed, a kilobyte each."""
    day, path = generate_day(1, start_ns=0, end_ns=60 * 10**9), tmp_path / "blocks.day"
    block, row = day.commands[:1].copy(), day.rows[:1].copy()
    with day_writer(path) as writer:
        for at in range(len(day)):
            block[:], row[:] = day.commands[at], day.rows[at]
            writer.write(block, row)
        writer.finish(day.reference)
    assert pq.read_metadata(path).num_row_groups == 1
    again = read_day(path)
    assert again.commands.tobytes() == day.commands.tobytes() and (again.rows == day.rows).all()
