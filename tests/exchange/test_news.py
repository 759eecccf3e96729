"""The file of the news in a journal, and what a message may be."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from serl.exchange.cli_news import KINDS
from serl.exchange.config import LimitsConfig
from serl.exchange.errors import ConfigError, DiskFullError, JournalError
from serl.exchange.journal import news_log
from serl.exchange.journal.inspect import verify
from serl.exchange.journal.meta import open_meta, save_participants, write_meta
from serl.exchange.journal.news_log import NEWS, NewsLog, read_news
from serl.exchange.journal.repair import repair
from serl.exchange.news import KIND_NAMES, News, NewsKind, checked_news
from serl.exchange.news_channel import NewsChannel


def message(number: int) -> News:
    return News(
        number, 10 * number, NewsKind.MACRO, "", f"Rate decision {number}", "Unchanged.\nAs expected: ±0", 4.25, "bank"
    )


def filled(folder: Path, count: int, kept: int = 100) -> NewsLog:
    log = NewsLog(folder, "id", kept)
    for number in range(log.last + 1, log.last + count + 1):
        log.append(message(number))
    return log


def test_a_log_opened_again_continues_the_numbers(tmp_path: Path) -> None:
    assert not (filled(tmp_path, 0).messages or (tmp_path / NEWS).exists())
    filled(tmp_path, 3)
    again = filled(tmp_path, 2)
    assert again.messages == [message(number) for number in range(1, 6)] == read_news(tmp_path / NEWS).messages
    with pytest.raises(JournalError, match="file of journal other"):
        NewsLog(tmp_path, "other", 100)


def test_a_log_keeps_the_newest_messages(tmp_path: Path) -> None:
    assert [each.sequence for each in filled(tmp_path, 9, kept=4).messages] == [6, 7, 8, 9]
    assert [each.sequence for each in filled(tmp_path, 2, kept=2).messages] == [8, 9, 10, 11]
    assert len(read_news(tmp_path / NEWS).messages) == 4


@pytest.mark.parametrize("left", [0, 1, 40, -2])
def test_an_unfinished_message_is_cut_off(left: int, tmp_path: Path) -> None:
    """However much of its line was written: a byte, all but its last ones, or zeros in its place and then the end."""
    filled(tmp_path, 2)
    whole = (tmp_path / NEWS).read_bytes()
    filled(tmp_path, 1)
    line = (tmp_path / NEWS).read_bytes()[len(whole) :]
    (tmp_path / NEWS).write_bytes(whole + (line[:left] or b"\0" * 80 + line[-20:]))
    again = filled(tmp_path, 1)
    assert again.messages == [message(1), message(2), message(3)] == read_news(tmp_path / NEWS).messages


def test_a_file_that_was_just_created_may_be_unfinished(tmp_path: Path) -> None:
    (tmp_path / NEWS).write_bytes(b'{"format": 1, "jou')
    assert filled(tmp_path, 1).messages == [message(1)]


def test_a_damaged_message_stops_the_start_and_repair_keeps_the_others(tmp_path: Path) -> None:
    folder, target = tmp_path / "journal", tmp_path / "repaired"
    folder.mkdir()
    meta = open_meta(folder, [{"name": "AMZN"}]) | {"id": "id"}
    save_participants(folder, "id", [])
    write_meta(folder, meta)
    filled(folder, 3)
    assert not [finding for finding in verify(folder) if finding.damage]
    path = folder / NEWS
    path.write_bytes(path.read_bytes().replace(b"decision 2", b"decision 7"))
    with pytest.raises(JournalError, match=r"news\.jsonl: line 3 fails its check"):
        NewsLog(folder, "id", 100)
    (found,) = [finding for finding in verify(folder) if finding.damage]
    assert (found.name, found.damage) == (NEWS, "lines 3 fail their checks")
    assert any(NEWS in line for line in repair(folder, target).lost)
    assert NewsLog(target, "id", 100).messages == [message(1), message(3)]
    write_meta(folder, meta | {"id": "another"})
    save_participants(folder, "another", [])
    lost = repair(folder, tmp_path / "without").lost
    assert lost == ["news.jsonl: lines 3 fail their checks"]
    assert NewsLog(tmp_path / "without", "another", 100).messages == [], "messages of another journal"


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path, 2)
    before = (tmp_path / NEWS).read_bytes()
    write_all = news_log.write_all

    def half(file: int, data: bytes, offset: int) -> None:
        write_all(file, data[: len(data) // 2], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(news_log, "write_all", half)
    with pytest.raises(DiskFullError, match="free some disk space"):
        log.append(message(3))
    assert (tmp_path / NEWS).read_bytes() == before and log.last == 2
    monkeypatch.undo()
    log.append(message(3))
    assert read_news(tmp_path / NEWS).messages == [message(1), message(2), message(3)]


def test_a_message_that_is_on_the_disk_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the disk has no room for the file without the oldest messages, which is written again with the next one."""
    log = filled(tmp_path, 4, kept=2)

    def full(path: Path, journal_id: str, messages: Sequence[News]) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(news_log, "write_news", full)
    log.append(message(5))
    assert log.messages == [message(number) for number in range(1, 6)] == read_news(tmp_path / NEWS).messages
    monkeypatch.undo()
    log.append(message(6))
    assert log.messages == [message(5), message(6)] == read_news(tmp_path / NEWS).messages


def test_a_published_message_that_is_no_longer_kept_is_not_repeated(tmp_path: Path) -> None:
    """As in lockstep, while more wait for one time than are kept."""
    now_ns, sent = [1], []
    feed = SimpleNamespace(has_subscribers=True, delayed=SimpleNamespace(put=lambda *_: None, repeat=lambda *_: None))
    given: Any = (feed, SimpleNamespace(send_multipart=sent.append), SimpleNamespace(is_known=lambda _: False))
    clock: Any = (lambda: now_ns[0], lambda: 2, lambda: None)
    channel = NewsChannel(NewsLog(tmp_path, "id", 2), LimitsConfig(news_kept=2), ["A"], 1, *given, *clock)
    channel.accept(NewsKind.MACRO, "A", "published", "", None, "bank")
    channel.repeat()
    assert channel.last == 1 and len(sent) == 2
    now_ns[0] = 5
    for number in range(4):
        channel.accept(NewsKind.MACRO, "A", f"waits {number}", "", None, "bank")
    channel.repeat()
    assert channel.last == 1 and len(sent) == 2 and channel.messages_after(0) == []


@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
def test_a_message_that_does_not_reach_the_disk_is_not_stored(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fsync: of the first message, whose file is new. The error ends the exchange; the next start does not have the message."""
    count = 2 if call == "fdatasync" else 0
    log = filled(tmp_path, count)

    def failing(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(OSError, match="Input/output error"):
        log.append(message(count + 1))
    assert log.last == count
    monkeypatch.undo()
    assert NewsLog(tmp_path, "id", 100).last == count


FITTING: dict[str, Any] = {
    "kind": NewsKind.NEWS,
    "symbol": "",
    "headline": "x",
    "body": "",
    "value": None,
    "source": "",
}


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"kind": 9}, "kind: expected a number from 1 to 5, got 9"),
        ({"headline": "red \x1b[31m"}, "headline: expected printable text"),
        ({"headline": "two\nlines"}, "headline: expected printable text"),
        ({"body": "bell\a"}, "body: expected printable text"),
        ({"headline": ""}, "expected a headline or a value, got neither"),
        ({"value": float("nan")}, "value: expected a finite number"),
        ({"value": 10**400}, "value: expected a finite number"),
        ({"value": "3"}, "value: expected a finite number"),
        ({"kind": NewsKind.VALUE, "value": 3}, "symbol: expected the symbol whose value it is"),
        ({"kind": NewsKind.VALUE, "symbol": "A", "value": 3.5}, "value: expected an integer of ticks"),
        ({"kind": NewsKind.VALUE, "symbol": "A", "value": 1 << 54}, "value: expected an integer of ticks"),
    ],
)  # fmt: skip
def test_a_message_that_cannot_be_is_refused(changed: dict[str, Any], error: str) -> None:
    checked_news(1, 1, **FITTING)
    with pytest.raises(ConfigError, match=error):
        checked_news(1, 1, **(FITTING | changed))


def test_the_command_knows_the_kinds() -> None:
    assert KINDS == KIND_NAMES
