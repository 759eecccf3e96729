"""What commands refuse before they begin: nothing is left behind, and the error names what to do."""


import pytest
from click.testing import CliRunner

from serl.cli import serl
from serl.exchange.errors import ConfigError


@pytest.mark.parametrize("symbols", ["", "A=", "A,,B", "=0.5"])
def test_an_exchange_without_the_symbols_that_were_asked_for(symbols: str) -> None:
    done = CliRunner().invoke(serl, ["exchange", "start", "--symbols", symbols, "--endpoint", "nowhere"])
    assert isinstance(done.exception, ConfigError)
    assert "expected NAME or NAME=TICK, like AMZN or BTC=0.5, got" in str(done.exception)
