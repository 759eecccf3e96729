"""What the commands that send requests to an exchange say when it refuses."""

from typing import Any

import pytest
from click.testing import CliRunner

from serl.exchange.cli import exchange
from serl.exchange.cli_request import symbol_number
from serl.exchange.errors import ConfigError, RequestRejected
from tests.server_fixture import free_endpoint, start_exchange


def test_an_operation_without_a_token_asks_for_an_operators() -> None:
    def refuse(socket: str, kind: str) -> Any:
        raise RequestRejected("login", f"{socket} {kind}: expected the token of a participant that may read data")

    for symbol in ("AMZN", None):
        with pytest.raises(RequestRejected, match=r"not_permitted: expected an operator's token, .* with --token-file"):
            symbol_number(refuse, symbol)
    assert symbol_number(refuse, "1") == 1


def test_the_account_of_an_unknown_participant_has_no_table() -> None:
    with start_exchange(symbols="A") as served:
        done = CliRunner().invoke(exchange, ["account", "nobody", "--connect", served.endpoint])
    assert isinstance(done.exception, RequestRejected) and "'nobody'" in str(done.exception) and not done.output


def test_a_symbol_whose_name_is_a_number_is_found_by_its_name() -> None:
    """As on Asian exchanges: `--symbol 000001` halted the symbol with the number 1."""

    def info(_socket: str, _kind: str) -> Any:
        return [0, 0, 0, 0, 0, ["", [[0, "000001"], [1, "600519"], [2, "AMZN"]]]]

    assert [symbol_number(info, symbol) for symbol in ("000001", "600519", "AMZN", "2")] == [0, 1, 2, 2]


@pytest.mark.parametrize(
    "words",
    [
        ["news", "--kind", "value", "--symbol", "A", "--value", str(10**30)],
        ["news", "a byte that is not UTF-8: \udcff"],
    ],
)
def test_arguments_that_no_message_can_have_are_one_line(words: list[str]) -> None:
    """Noticed before anything is sent."""
    done = CliRunner().invoke(exchange, [*words, "--connect", free_endpoint()])
    assert isinstance(done.exception, ConfigError) and "expected text in UTF-8" in str(done.exception), done
