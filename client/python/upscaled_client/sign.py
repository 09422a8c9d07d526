"""Signed URLs of GET /v1/upscale, for <img src>."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Any, Optional

from .client import Url, _query

_MIN_SECRET_CHARACTERS = 32


def sign_url(
    server: str, source: "str | Url", *, key: str, expires_in: Optional[float] = None, **options: Any
) -> str:
    """The URL of the image at `source`, upscaled with `options`.

    `server` is where browsers ask: upscaled, or a cache in front of it. `key` is ID:SECRET, as
    `upscaled keys url` writes it. The URL ends in `expires_in` seconds, or with its key. ValueError
    for what is no key.
    """
    key_id, colon, secret = key.partition(":")
    if not key_id or not colon or len(secret) < _MIN_SECRET_CHARACTERS:
        raise ValueError("key must be ID:SECRET, as `upscaled keys url` writes it")
    text = source.text if isinstance(source, Url) else source
    target = f"/v1/upscale?{_query({'url': text, **options})}&key={key_id}"
    if expires_in is not None:
        target += f"&expires={int(time.time() + expires_in)}"
    digest = hmac.digest(secret.encode(), target.encode(), hashlib.sha256)
    signature = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return f"{server.rstrip('/')}{target}&sig={signature}"
