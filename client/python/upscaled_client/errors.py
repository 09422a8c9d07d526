"""The errors of a call: a class for each family of reasons."""

from __future__ import annotations

import http.client
import json
from typing import Any, Mapping, Optional


class UpscaledError(Exception):
    """Base of all errors that a call raises.

    `reason` is the server's (such as "LIMIT_EXCEEDED"; "" when the error is not the server's),
    `status` the HTTP status (0: there was no answer), `limit`, `value` and `maximum` what was
    passed, `retry_after` seconds.
    """

    #: Whether the same call may succeed later.
    retryable = False

    def __init__(self, problem: Mapping[str, Any]):
        super().__init__(problem.get("detail") or problem.get("title") or "the call failed")
        self.problem = dict(problem)
        self.reason: str = problem.get("reason") or ""
        self.status: int = problem.get("status") or 0
        self.metadata: Mapping[str, str] = problem.get("metadata") or {}
        self.limit: Optional[str] = self.metadata.get("limit")
        self.value: Optional[str] = self.metadata.get("value")
        self.maximum: Optional[str] = self.metadata.get("maximum")
        self.request_id: Optional[str] = problem.get("request_id")
        self.retry_after: Optional[float] = problem.get("retry_after_seconds")


class InvalidOptionError(UpscaledError):
    """An option is out of range, contradictory or unknown."""


class InvalidImageError(UpscaledError):
    """The bytes are no image that the server can read, or of a kind that it does not support."""


class LimitExceededError(UpscaledError):
    """The image, its result or its file passes a limit."""


class UnknownModelError(UpscaledError):
    """No such model, or not at this scale or noise level."""


class UnauthorizedError(UpscaledError):
    """The server wants a key, or another one."""


class TimedOutError(UpscaledError):
    """The deadline passed or cannot be met, or too little was sent or read for too long."""


class ServerError(UpscaledError):
    """The server failed: a device, or something that it does not expect."""


class BusyError(UpscaledError):
    """The server is full or about to end: come back after `retry_after` seconds."""

    retryable = True


class ConnectionBroken(UpscaledError):
    """No connection, or one that broke off in the middle of an answer."""


class CallCancelled(UpscaledError):
    """The caller's own Cancellation."""


_CLASS_OF_REASON = {
    "INVALID_OPTION": InvalidOptionError,
    "INVALID_IMAGE": InvalidImageError,
    "UNSUPPORTED": InvalidImageError,
    "LIMIT_EXCEEDED": LimitExceededError,
    "UNKNOWN_MODEL": UnknownModelError,
    "SOURCE_REFUSED": InvalidOptionError,
    "UNAUTHENTICATED": UnauthorizedError,
    "PERMISSION_DENIED": UnauthorizedError,
    "OVERLOADED": BusyError,
    "DRAINING": BusyError,
    "DEADLINE": TimedOutError,
    "DEADLINE_INFEASIBLE": TimedOutError,  # Final: no wait makes a deadline longer.
    "STALLED": TimedOutError,
    "CANCELLED": UpscaledError,
    "SOURCE_FAILED": ServerError,
    "DEVICE_FAILURE": ServerError,
    "RELOAD_FAILED": ServerError,
    "INTERNAL": ServerError,
}

_CLASS_OF_STATUS = {
    401: UnauthorizedError,
    403: UnauthorizedError,
    408: TimedOutError,
    413: LimitExceededError,
    415: InvalidImageError,
    422: InvalidImageError,
    429: BusyError,
    503: BusyError,
    504: TimedOutError,
}


def error_of(problem: Mapping[str, Any]) -> UpscaledError:
    """The error that a problem document (RFC 9457) of the server stands for."""
    status = problem.get("status") or 0
    fallback = _CLASS_OF_STATUS.get(status, ServerError if status >= 500 else UpscaledError)
    return _CLASS_OF_REASON.get(problem.get("reason") or "", fallback)(problem)


def error_of_response(response: http.client.HTTPResponse) -> UpscaledError:
    """Reads the rest of an answer that is no success.

    What is no problem document becomes as much of one as it can.
    """
    problem: dict = {}
    try:
        text = response.read(1 << 16).decode("utf-8", "replace")
        if "json" in (response.getheader("Content-Type") or ""):
            problem = json.loads(text)
        else:
            problem = {"detail": text.strip()[:300]}
    except (OSError, http.client.HTTPException, ValueError):
        pass  # A proxy's answer, or half of one: the status says what there is to say.
    problem.setdefault("status", response.status)
    problem.setdefault("title", response.reason)
    problem.setdefault("request_id", response.getheader("X-Request-Id"))
    try:
        problem.setdefault("retry_after_seconds", float(response.getheader("Retry-After") or ""))
    except ValueError:
        pass  # A date, or none.
    return error_of(problem)
