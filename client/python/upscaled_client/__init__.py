"""A client of upscaled's HTTP service. No dependencies."""

from .aio import AsyncClient, AsyncJob, AsyncResult
from .cancellation import Cancellation
from .client import Client, Result, Url
from .errors import (
    BusyError,
    CallCancelled,
    ConnectionBroken,
    InvalidImageError,
    InvalidOptionError,
    LimitExceededError,
    ServerError,
    TimedOutError,
    UnauthorizedError,
    UnknownModelError,
    UpscaledError,
)
from .jobs import Job
from .sign import sign_url

__all__ = [
    "AsyncClient",
    "AsyncJob",
    "AsyncResult",
    "BusyError",
    "CallCancelled",
    "Cancellation",
    "Client",
    "ConnectionBroken",
    "InvalidImageError",
    "InvalidOptionError",
    "Job",
    "LimitExceededError",
    "Result",
    "ServerError",
    "TimedOutError",
    "UnauthorizedError",
    "UnknownModelError",
    "UpscaledError",
    "Url",
    "sign_url",
]
