"""Authenticates requests: the bytes that a signature covers, and the time of a request."""

import time
from collections.abc import Mapping

from serl.gateways.binance.api_keys import ApiKey
from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.parameters import Parameters

WINDOW_MS, WINDOW_MS_MAX = 5_000.0, 60_000.0
AHEAD_MS = 1_000.0
"""The client's clock may be ahead by this much."""
MICROSECONDS_FROM = 10**14
"""Timestamps from here on are in microseconds."""


def signed_payload(query: str, body: str) -> bytes:
    """The bytes that a REST request's signature covers: query and body as sent, without the signature. Both in Latin-1."""
    return (_without_signature(query) + _without_signature(body)).encode("latin-1")


def _without_signature(text: str) -> str:
    if text.startswith("signature="):
        return text.partition("&")[2]
    before, found, behind = text.partition("&signature=")
    if not found:
        return text
    _, more, rest = behind.partition("&")
    return before + (f"&{rest}" if more else "")


def socket_payload(values: Mapping[str, str]) -> bytes:
    """The bytes that the signature of a WebSocket API request covers: its parameters sorted by name, in UTF-8."""
    text = "&".join(f"{name}={values[name]}" for name in sorted(values) if name != "signature")
    return text.encode(errors="surrogatepass")  # JSON can escape half of a surrogate pair


def check_signature(key: ApiKey, parameters: Parameters, payload: bytes) -> None:
    """Raises BinanceError unless the request is recent and signed with the key."""
    check_time(parameters)
    if not key.verifies(payload, parameters.text("signature")):
        raise BinanceError(-1022, "Signature for this request is not valid.")


def check_time(parameters: Parameters) -> None:
    """Raises BinanceError unless the timestamp is within recvWindow."""
    parameters.text("timestamp")
    sent = parameters.integer("timestamp") or 0
    sent_ms = sent / 1000 if sent >= MICROSECONDS_FROM else float(sent)
    window_ms = _window_ms(parameters)
    now_ms = time.time() * 1000
    if sent_ms > now_ms + AHEAD_MS:
        raise BinanceError(-1021, "Timestamp for this request was 1000ms ahead of the server's time.")
    if now_ms - sent_ms > window_ms:
        raise BinanceError(-1021, "Timestamp for this request is outside of the recvWindow.")


def _window_ms(parameters: Parameters) -> float:
    text = parameters.get("recvWindow")
    if text is None:
        return WINDOW_MS
    whole, _, part = text.partition(".")
    if not (whole.isdigit() and text.isascii() and len(part) <= 3 and (not part or part.isdigit())):
        raise BinanceError(
            -1100, "Illegal characters found in parameter 'recvWindow'; legal range is '^[0-9]{1,5}(\\.[0-9]{1,3})?$'."
        )
    if (window_ms := float(text)) > WINDOW_MS_MAX:
        raise BinanceError(-1131, "recvWindow must be less than 60000.")
    return window_ms
