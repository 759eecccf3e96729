"""Strategies that come with NautilusTrader, unchanged, in its backtest over an exported day of simulated traders."""

from pathlib import Path

import pytest

from tests.gateways.nautilus import needs_nautilus
from tests.gateways.nautilus.backtests import backtest, ema_cross, order_book_imbalance, simulate

pytestmark = [needs_nautilus, pytest.mark.long]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("day"), "09:45")


@pytest.mark.parametrize("book", ["l2", "l3"])
@pytest.mark.parametrize("example", ["ema cross", "order book imbalance"])
def test_an_example_of_the_library_trades(day: Path, tmp_path: Path, book: str, example: str) -> None:
    from serl.gateways.nautilus import export_day

    export_day(day, tmp_path / "catalog", book="l2" if book == "l2" else "l3")
    engine = backtest(
        tmp_path / "catalog", ema_cross() if example == "ema cross" else order_book_imbalance(book), book=book
    )
    result = engine.get_result()
    fills = engine.trader.generate_fills_report()
    assert result.total_orders > 4 and len(fills) > 4
    low, high = 90, 110
    assert all(low < float(price) < high for price in fills["last_px"])
    engine.dispose()
