"""The signature of a web hook, as the Standard Webhooks specification has it. Pure: the time is passed in.

The receiver sees by it that id, time and body are of the one who has the secret, and that the request is not an old one
that someone sends again.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from topology.clients.errors import invalid
from topology.secrets import Secret

PREFIX: Final = "whsec_"
KEY_BYTES: Final = range(24, 65)  # bytes that a key may have


def keys_of(needed_by: str, secret: str | Secret | Sequence[str | Secret] | None) -> tuple[Secret, ...]:
    """Return the secrets, checked. Raises ConfigurationError, which begins with `needed_by`, for one that is none."""
    if secret is None:
        return ()
    secrets = (secret,) if isinstance(secret, str | Secret) else tuple(secret)
    for each in secrets:
        if not isinstance(each, str | Secret) or len(_key(Secret(each))) not in KEY_BYTES:
            raise invalid(f"{needed_by}: secret is {PREFIX} and base64 of {KEY_BYTES[0]} to {KEY_BYTES[-1]} bytes")
    return tuple(map(Secret, secrets))


def signed_headers(secrets: Sequence[Secret], key: str, seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a request. `seconds`: the time of this attempt, since 1970. With several secrets,
    there is a signature by each."""
    content = f"{key}.{seconds}.".encode() + body
    signatures = [hmac.new(_key(secret), content, hashlib.sha256).digest() for secret in secrets]
    return {
        "webhook-id": key,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{base64.b64encode(signature).decode()}" for signature in signatures),
    }


def _key(secret: Secret) -> bytes:
    """Return the bytes of the key; none if the text is no secret of this form."""
    text = secret.reveal()
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else b""
    except (binascii.Error, ValueError):
        return b""
