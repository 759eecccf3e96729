"""Free ports: nobody is given one that another process has been given."""

import secrets
import subprocess
import sys

import pytest

from serl.exchange import ports
from serl.exchange.config import endpoint_port
from serl.exchange.errors import ConfigError


def test_a_port_is_given_to_one_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens there yet: an exchange takes seconds to bind its ports."""
    given = ports.free_port()
    drawn = iter([given, given + ports.PORTS, given + 2 * ports.PORTS])
    monkeypatch.setattr(secrets, "randbelow", lambda _: (next(drawn) - 10_000) // ports.PORTS)
    assert ports.port_is_free(given)
    assert ports.free_port() > given


def test_another_process_is_given_another_one() -> None:
    """Here the first choice of the other one is taken."""
    given = ports.free_port()
    code = f"""
import secrets
from serl.exchange import ports
drawn = iter([{given}, *range({given} + 4, {given} + 400, 4)])
secrets.randbelow = lambda _: (next(drawn) - 10_000) // 4
print(ports.free_port())
"""
    assert int(subprocess.check_output([sys.executable, "-c", code])) > given


def test_a_process_keeps_few_claims() -> None:
    """Each is an open file."""
    claims = [ports.free_port() for _ in range(ports.CLAIMED + 5)]
    assert len(set(claims)) >= ports.CLAIMED
    assert len(ports._claims) == ports.CLAIMED


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:abc", "tcp://127.0.0.1:²", "tcp://127.0.0.1:", "foo"])
def test_an_endpoint_without_a_port_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"expected an endpoint like tcp://127\.0\.0\.1:5570, got"):
        endpoint_port(endpoint)
