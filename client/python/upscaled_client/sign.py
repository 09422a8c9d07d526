"""Signed URLs of GET /v1/upscale, for <img src>."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import re
import time
from typing import Any, Optional

from .client import Url, _query

_MIN_SECRET_CHARACTERS = 32
#: The server refuses other characters in the URL of a source.
_SOURCE = re.compile(r"""https?://(?:[!#$&-;=?@A-Z\[\]_a-z~]|%[0-9A-Fa-f]{2})+""", re.IGNORECASE)


def sign_url(
    server: str, source: "str | Url", *, key: str, expires_in: Optional[float] = None, **options: Any
) -> str:
    """The URL of the image at `source`, upscaled with `options`.

    `server` is where browsers ask: upscaled, or a cache in front of it. `key` is ID:SECRET, as
    `upscaled keys url` writes it. The URL ends in `expires_in` seconds, or with its key. ValueError
    for what is no key, no URL that the server takes, or no time.
    """
    key_id, colon, secret = key.partition(":")
    if not key_id or not colon or len(secret) < _MIN_SECRET_CHARACTERS:
        raise ValueError("key must be ID:SECRET, as `upscaled keys url` writes it")
    text = source.text if isinstance(source, Url) else source
    if not _SOURCE.fullmatch(text):
        raise ValueError(
            f"source is {text!r}; it must be a whole http:// or https:// URL whose other characters "
            "are percent-encoded (hosts: in punycode)"
        )
    if expires_in is not None and not math.isfinite(expires_in):
        raise ValueError(f"expires_in is {expires_in}; it must be a number of seconds")
    target = f"/v1/upscale?{_query({'url': text, **options})}&key={key_id}"
    if expires_in is not None:
        target += f"&expires={int(time.time() + expires_in)}"
    digest = hmac.digest(secret.encode(), target.encode(), hashlib.sha256)
    signature = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return f"{server.rstrip('/')}{target}&sig={signature}"
