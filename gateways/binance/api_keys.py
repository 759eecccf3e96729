"""API keys: verify the signature of a request according to the type of the key."""

import base64
import hmac
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from serl.exchange.errors import ConfigError
from serl.extras import require
from serl.gateways.accounts import GatewayAccount

RSA_BITS_MIN = 2048


class ApiKey(NamedTuple):
    """The key of one account.

    Attributes:
        kind: HMAC_SHA256, ED25519 or RSA.
        verifies: returns whether a signature, as text without percent-encoding, is that of a payload.
    """

    kind: str
    verifies: Callable[[bytes, str], bool]


def read_api_key(account: GatewayAccount) -> ApiKey:
    """The key of an account: its secret, or its public key. Raises ConfigError, and MissingPackageError for a public key."""
    if not account.public_key:
        return ApiKey("HMAC_SHA256", partial(_is_hmac, account.secret.encode()))
    require("API keys with a public key", "cryptography", extra="binance")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(account.public_key.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise _wrong_key(account, "something else") from None
    if isinstance(key, Ed25519PublicKey):
        return ApiKey("ED25519", partial(_is_signature, key.verify))
    if not isinstance(key, RSAPublicKey):
        raise _wrong_key(account, type(key).__name__.strip("_"))
    if key.key_size < RSA_BITS_MIN:
        raise _wrong_key(account, f"an RSA key of {key.key_size} bits")
    return ApiKey(
        "RSA", partial(_is_signature, lambda signature, payload: key.verify(signature, payload, PKCS1v15(), SHA256()))
    )


def _wrong_key(account: GatewayAccount, got: str) -> ConfigError:
    return ConfigError(
        f"account {account.participant}: expected in public_key the PEM text of a public key, Ed25519 or RSA of at least {RSA_BITS_MIN} bits, "
        f"got {got}; write one with `openssl pkey -in PRIVATE.pem -pubout`"
    )


def _is_hmac(secret: bytes, payload: bytes, signature: str) -> bool:
    """Compares in constant time. Hexadecimal digits may be of either case."""
    expected = hmac.digest(secret, payload, "sha256").hex()
    return hmac.compare_digest(expected.encode(), signature.lower().encode(errors="surrogatepass"))


def _is_signature(verify: Callable[[bytes, bytes], None], payload: bytes, signature: str) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        # a plus sign that the client did not percent-encode arrives as a blank, which base64 does not have
        verify(base64.b64decode(signature.replace(" ", "+"), validate=True), payload)
    except (ValueError, InvalidSignature):
        return False
    return True
