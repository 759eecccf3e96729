"""API keys of each type: Binance's published examples, what is forged, and connections that log on."""

import base64
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from serl.exchange.errors import ConfigError
from serl.gateways.accounts import GatewayAccount, read_accounts, require_secrets
from serl.gateways.binance.api_keys import read_api_key
from serl.gateways.binance.signing import signed_payload, socket_payload
from tests.gateways.binance.gateway_fixture import (
    PRIVATE_KEY,
    PUBLIC_KEY,
    SECRETS,
    Gateway,
    now_ms,
    sign,
    signature,
    write_accounts,
)

HMAC_SECRET = "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j"
"""Of Binance's examples, like what follows: https://developers.binance.com/docs/binance-spot-api-docs/rest-api/request-security."""
FIRST, SECOND = (
    "symbol=LTCBTC&side=BUY&type=LIMIT&timeInForce=GTC",
    "quantity=1&price=0.1&recvWindow=5000&timestamp=1499827319559",
)
WEBSOCKET = {
    "symbol": "BTCUSDT", "side": "SELL", "type": "LIMIT", "timeInForce": "GTC", "quantity": "0.01000000", "price": "52000.00",
    "recvWindow": "100", "timestamp": "1645423376532",
}  # fmt: skip
WIDE = WEBSOCKET | {
    "symbol": "１２３４５６", "side": "BUY", "quantity": "1.00000000", "price": "0.10000000", "recvWindow": "5000",
}  # fmt: skip
HMAC_KEY, ED25519_KEY = (
    {"apiKey": "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A"},
    {"apiKey": "4yNzx3yWC5bS6YTwEkSRaC0nRmSQIIStAUOh1b6kqaBrTLIhjCpI5lJH8q8R8WNO"},
)


@pytest.mark.parametrize(
    "payload, published",
    [
        (signed_payload(f"{FIRST}&{SECOND}", ""), "c8db56825ae71d6d79447849e617115f4a920fa2acdcab2b053c4b2838bd6b71"),
        (signed_payload("", f"{FIRST}&{SECOND}&signature=x"), "C8DB56825AE71D6D79447849E617115F4A920FA2ACDCAB2B053C4B2838BD6B71"),
        (signed_payload(FIRST, SECOND), "0fd168b8ddb4876a0358a8d14d0c9f3da0e9b20c5d52b2a00fcf7d1c602f9a77"),
        (socket_payload(WEBSOCKET | HMAC_KEY), "aa1b5712c094bc4e57c05a1a5c1fd8d88dcd628338ea863fec7b88e59fe2db24"),
        (socket_payload(WIDE | HMAC_KEY), "b33892ae8e687c939f4468c6268ddd4c40ac1af18ad19a064864c47bae0752cd"),
    ],
)  # fmt: skip
def test_signatures_that_binance_publishes_are_accepted(payload: bytes, published: str) -> None:
    key = read_api_key(GatewayAccount(participant="a", login="a", secret=HMAC_SECRET))
    assert key.verifies(payload, published) and not key.verifies(payload + b"0", published)


def test_an_ed25519_signature_of_openssl_is_accepted() -> None:
    """Binance publishes no public key for its Ed25519 examples: this is its payload, signed by OpenSSL with the key of RFC 8032."""
    key = read_api_key(GatewayAccount(participant="a", login="a", public_key=PUBLIC_KEY))
    payload = socket_payload(WEBSOCKET | ED25519_KEY)
    signed = "Ws+5m/CMnpkko0uBFxGTZ2+fjqqBXsUjRiaz173fPhXTkhoDBYNZ6wcYNeWItdrGn1pvG7vkwx2fhmJdAZ3KDQ=="
    assert key.kind == "ED25519" and key.verifies(payload, signed) and key.verifies(payload, signed.replace("+", " "))
    other = "E7luAubOlcRxL10iQszvNCff+xJjwJrfajEHj1hOncmsgaSB4NE+A/BbQhCWwit/usNJ32/LeTwDYPoA7Qz4BA=="
    for forged in (other, signed[:-4], signed[:-8] + "====", signed.lower(), "", "=", "é" * 88, "\ud800", "A" * 88):
        assert not key.verifies(payload, forged), forged
    assert not key.verifies(payload.replace(b"SELL", b"BUY"), signed)


def pem(public: Any) -> str:
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def test_an_rsa_key_verifies_pkcs1_signatures() -> None:
    private = rsa.generate_private_key(65537, 2048)
    key = read_api_key(GatewayAccount(participant="a", login="a", public_key=pem(private.public_key())))
    signed = base64.b64encode(private.sign(b"payload", PKCS1v15(), SHA256())).decode()
    assert key.kind == "RSA" and key.verifies(b"payload", signed)
    assert not key.verifies(b"payloads", signed) and not key.verifies(b"payload", signed[4:])


def test_other_keys_and_ambiguous_accounts_are_refused(tmp_path: Path) -> None:
    curve = pem(ec.generate_private_key(ec.SECP256R1()).public_key())
    short = pem(rsa.generate_private_key(65537, 1024).public_key())
    for text, got in ((PRIVATE_KEY, "something else"), ("", "neither"), (curve, "EC"), (short, "1024 bits")):
        with pytest.raises((ConfigError, ValueError), match=got) as refused:
            read_api_key(GatewayAccount(participant="a", login="a", public_key=text))
        assert PRIVATE_KEY[40:80] not in str(refused.value)
    (tmp_path / "anna.pem").write_text(PUBLIC_KEY)
    file = write_accounts(tmp_path, {"anna": {"public_key_file": str(tmp_path / "anna.pem")}})
    account = read_accounts(file)["anna"]
    assert account.public_key == PUBLIC_KEY and not account.proves("") and not account.proves(PUBLIC_KEY)
    with pytest.raises(ConfigError, match="account anna: expected a secret, as FIX has passwords only"):
        require_secrets(read_accounts(file), "FIX")
    for wrong, error in (
        ({"public_key": PUBLIC_KEY, "secret": "s"}, "expected a secret or a public_key, got both"),
        ({"public_key_file": str(tmp_path / "nowhere")}, "nowhere: expected a file with a public key"),
    ):
        with pytest.raises(ConfigError, match=error):
            read_accounts(write_accounts(tmp_path, {"anna": wrong}))


def test_rest_requests_with_an_ed25519_key(gateway: Gateway) -> None:
    placed = gateway.placed("BUY", 1, "12.00", key="ANNA")
    assert [order["orderId"] for order in gateway.signed("GET", "openOrders", "ANNA").body] == [placed["orderId"]]
    other = base64.b64encode(bytes(range(32))).decode()
    for refused in (
        gateway.signed("GET", "account", "ANNA", SECRETS["ALICE"]),  # an HMAC for an Ed25519 key
        gateway.signed("GET", "account", "ANNA", PRIVATE_KEY.replace("IJ1hsZ3v", "IJ1hsZ3w")),  # another private key
        gateway.signed("GET", "account", "ALICE", PRIVATE_KEY),  # an Ed25519 signature for an HMAC key
    ):
        assert (refused.status, refused.body["code"]) == (400, -1022)
    query = sign({"symbol": "DEMOUSDT", "timestamp": now_ms()}, PRIVATE_KEY)
    headers = {"X-MBX-APIKEY": "ANNA"}
    assert gateway.ask("GET", f"/api/v3/openOrders?{query}", headers=headers).status == 200
    for tampered in (query.replace("DEMO", "AMZN"), query.partition("signature=")[0] + f"signature={other}"):
        assert gateway.ask("GET", f"/api/v3/openOrders?{tampered}", headers=headers).body["code"] == -1022
    raw = query.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=")  # python-binance sends it so
    assert gateway.ask("GET", f"/api/v3/openOrders?{raw}", headers=headers).status == 200


ORDER = {"symbol": "DEMOUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC", "quantity": "1", "price": "11.00"}


def test_a_connection_logs_on_and_needs_no_more_signatures(gateway: Gateway) -> None:
    with gateway.socket("/ws-api/v3") as stream, gateway.socket("/ws-api/v3") as other:
        status = stream.call("session.status")["result"]
        assert (status["apiKey"], status["authorizedSince"], status["userDataStream"]) == (None, None, False)
        assert stream.call("openOrders.status", timestamp=now_ms())["error"]["code"] == -2014
        refused = stream.call("userDataStream.subscribe")
        assert (refused["status"], refused["error"]["code"]) == (401, -1002)
        before_ms = time.time_ns() // 1_000_000
        logon = stream.call("session.logon", "ANNA")["result"]
        assert logon["apiKey"] == "ANNA" and before_ms <= logon["authorizedSince"] <= logon["serverTime"]
        assert stream.call("userDataStream.subscribe")["result"] == {"subscriptionId": 0}
        placed = gateway.placed("BUY", 1, "10.00", key="ANNA")
        assert stream.receive(e="executionReport", x="NEW")["event"]["i"] == placed["orderId"]
        assert stream.call("order.place", timestamp=now_ms(), **ORDER)["result"]["price"] == "11.00000000"
        assert stream.call("order.place", **ORDER)["error"]["code"] == -1102  # the timestamp is still needed
        assert stream.call("order.place", timestamp=now_ms() - 9_000, **ORDER)["error"]["code"] == -1021
        asked = stream.call("openOrders.status", "BOB")  # a key and a signature of its own
        assert asked["result"] == [] and stream.call("session.status")["result"]["apiKey"] == "ANNA"
        assert stream.call("openOrders.status", apiKey="ANNA", timestamp=now_ms())["error"]["code"] == -1102
        assert stream.call("openOrders.status", apiKey="BOB", timestamp=now_ms())["error"]["code"] == -1102
        assert stream.call("openOrders.status", signature="x", timestamp=now_ms())["error"]["code"] == -1022
        assert other.call("openOrders.status", timestamp=now_ms())["error"]["code"] == -2014  # not its logon
        assert stream.call("userDataStream.subscribe.signature", "BOB")["result"] == {"subscriptionId": 1}
        ended = stream.call("session.logout")["result"]
        assert (ended["apiKey"], ended["userDataStream"]) == (None, True)
        assert stream.call("session.subscriptions")["result"] == [{"subscriptionId": 1}]
        assert stream.call("openOrders.status", timestamp=now_ms())["error"]["code"] == -2014


def test_only_ed25519_keys_log_on(gateway: Gateway) -> None:
    with gateway.socket("/ws-api/v3") as stream:
        assert stream.call("session.logon", "BOB")["error"] == {
            "code": -4056,
            "msg": "HMAC_SHA256 API key is not supported.",
        }
        assert stream.call("session.logon", apiKey="EVE", timestamp=1, signature="x")["error"]["code"] == -2015
        assert stream.call("session.logon")["error"]["code"] == -2014
        values = {"apiKey": "ANNA", "timestamp": str(now_ms())}
        forged = signature("&".join(f"{name}={values[name]}" for name in sorted(values)), SECRETS["BOB"])
        assert stream.call("session.logon", **values, signature=forged)["error"]["code"] == -1022
        assert stream.call("session.status")["result"]["apiKey"] is None
