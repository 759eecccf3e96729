"""The meaning of each rejection, in errors and in docs/orders.md."""

from serl.exchange.reasons import MEANINGS
from serl.exchange.records import Reason
from tests.doc_blocks import ROOT


def test_every_rejection_has_a_meaning_and_the_docs_say_the_same() -> None:
    assert set(MEANINGS) == {reason for reason in Reason if Reason.NONE < reason < Reason.REQUESTED}
    page = (ROOT / "docs" / "orders.md").read_text()
    for reason, meaning in MEANINGS.items():
        assert f"| `{reason.name}` | {meaning} |" in page, reason.name
