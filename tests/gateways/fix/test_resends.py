"""Resends of many numbers, part by part."""

from pathlib import Path

from serl.gateways.fix.resends import PART_NUMBERS, Resends
from serl.gateways.fix.store import OUTBOUND, SEQUENCES, SessionStore


def fields_of(message: bytes) -> dict[str, str]:
    return dict(field.split("=", 1) for field in message.decode()[:-1].split("\x01"))


def test_numbers_without_messages_are_skipped_in_parts(tmp_path: Path) -> None:
    """Those of a million heartbeats would keep all other sessions waiting."""
    store = SessionStore(tmp_path, "a")
    list(store.load())
    last = 5 * PART_NUMBERS
    stored = b"8=FIX.4.4\x019=1\x0135=8\x0134=1\x0152=20260101-00:00:00\x0158=text\x0110=000\x01"
    store.append([SEQUENCES, 1, last])
    store.append([OUTBOUND, last, 0, stored, None])
    store.flush()
    resends = Resends(store, "")
    resends.start(1, last)
    parts = []
    while resends:
        parts.append([fields_of(message) for message in resends.part("20260102-00:00:00")])
    assert len(parts) >= 5 and all(len(part) <= 2 for part in parts)
    expected = 1
    told = [fields for part in parts for fields in part]
    for fields in told:
        if fields["35"] == "4":
            assert (int(fields["34"]), fields["123"], fields["43"]) == (expected, "Y", "Y")
            expected = int(fields["36"])
    assert expected == last and told[-1]["35"] == "8"
    store.close()
