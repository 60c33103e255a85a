"""Signs a webhook and checks a signature, in the way of Standard Webhooks.

The signature is an HMAC-SHA256 over id, time and body, so that neither can be changed and an old request
cannot be sent again later. A secret that begins with ``whsec_`` is base64 behind that; any other text is
taken as it is.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from hmac import new as new_hmac
from typing import Final

from holdfast.errors import BadSignature, Misuse

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
TOLERANCE_S: Final = 300.0
_PREFIX: Final = "whsec_"


def key_of(secret: str) -> bytes:
    """The key of a secret. Misuse if it is empty, or no base64 where it says so."""
    try:
        key = b64decode(secret.removeprefix(_PREFIX), validate=True) if secret.startswith(_PREFIX) else b""
    except Base64Error:
        raise Misuse(
            problem="the secret begins with whsec_ and is no base64 behind it",
            advice="copy it whole, or use a secret without that prefix",
        ) from None
    key = key or secret.encode()
    if not key:
        raise Misuse(
            problem="the secret of a webhook is empty", advice="use a long random text: openssl rand -hex 32"
        )
    return key


def sign(secret: str, notice_id: str, at_s: int, body: bytes) -> str:
    """The value of the signature header."""
    signed = f"{notice_id}.{at_s}.".encode() + body
    return "v1," + b64encode(new_hmac(key_of(secret), signed, sha256).digest()).decode()


def check(
    secret: str, headers: Mapping[str, str], body: bytes, now: float, tolerance_s: float = TOLERANCE_S
) -> str:
    """The id of a signed request. BadSignature if it was not signed with this secret, or long ago."""
    given = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not given.get(name)]
    if missing:
        raise BadSignature(problem=f"has no header {missing[0]}")
    try:
        at_s = int(given[TIMESTAMP])
    except ValueError:
        raise BadSignature(problem=f"has {given[TIMESTAMP][:40]!r} as its time") from None
    if abs(now - at_s) > tolerance_s:
        raise BadSignature(problem=f"was signed {abs(now - at_s):.0f} seconds from now")
    expected = sign(secret, given[ID], at_s, body).encode()
    if not any(compare_digest(one.encode(), expected) for one in given[SIGNATURE].split()):
        raise BadSignature(problem="was not signed with this secret, or was changed on its way")
    return given[ID]
