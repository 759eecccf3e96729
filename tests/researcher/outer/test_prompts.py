"""What a model is told about the market is what its candidates are trained and scored in."""

from serl.researcher.candidates import Budget
from serl.researcher.inner.settings import Settings
from serl.researcher.outer.prompts import market_text


def test_two_markets_and_an_exchange() -> None:
    text = market_text(Settings(), Budget())
    assert f"{Settings().dynamic.kind} one" in text and "simulated exchange" in text


def test_only_bars() -> None:
    text = market_text(Settings().model_copy(update={"scored_in": "bars"}), Budget(dynamic_steps=0))
    assert Settings().dynamic.kind not in text and "exchange" not in text and "bars" in text
