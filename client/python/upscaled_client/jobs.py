"""Images that are upscaled after their call has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional

from .cancellation import Cancellation
from .errors import UpscaledError, error_of
from .retry import MAX_TOTAL_WAIT_S, wait_before

if TYPE_CHECKING:
    from .client import Client, Result

_FIRST_POLL_S, _LAST_POLL_S = 0.2, 2.0
_ENDED = ("done", "failed", "cancelled")


class Job:
    """A job as the server last told: `state` ("waiting", "running", "done", "failed" or
    "cancelled"), `batch`, `reference`, `progress`, `size`, `webhook` and `error`, each None until it
    is known, and `warnings`, a list of all that the result has dropped or changed.

    Its server keeps it when this program ends: Client.job(id) finds it again.
    """

    def __init__(self, client: "Client", facts: Mapping[str, Any]):
        self._client = client
        self.id: str = facts["id"]
        self._set(facts)

    def _set(self, facts: Mapping[str, Any]) -> None:
        self.facts: Dict[str, Any] = dict(facts)
        self.state: str = facts.get("state") or "waiting"
        self.batch: Optional[str] = facts.get("batch")
        self.reference: Optional[str] = facts.get("reference")
        self.progress: Optional[Mapping[str, int]] = facts.get("progress")
        self.size: Optional[Mapping[str, int]] = facts.get("size")
        self.warnings: List[str] = list(facts.get("warnings") or ())
        self.webhook: Optional[Mapping[str, Any]] = facts.get("webhook")
        self.error: Optional[Mapping[str, str]] = facts.get("error")

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.state}>"

    @property
    def ended(self) -> bool:
        """Whether its state is for good."""
        return self.state in _ENDED

    def refresh(self) -> "Job":
        """Asks the server; returns this job."""
        self._set(self._client._json("GET", f"/v1/jobs/{self.id}"))
        return self

    def events(self, cancellation: Optional[Cancellation] = None) -> Iterator[Dict[str, Any]]:
        """The job's events until it has ended: "state" with the job's fields, and "tiles"."""
        for event in self._client._stream(
            f"/v1/jobs/{self.id}/events", cancellation or Cancellation()
        ):
            if event["event"] == "failed":
                raise error_of(event)
            if event["event"] == "state":
                self._set(event)
            yield event

    def wait(
        self, timeout: Optional[float] = None, cancellation: Optional[Cancellation] = None
    ) -> "Job":
        """Waits until the job has ended; returns this job.

        Raises TimeoutError after `timeout` seconds. The job goes on then. A full server is asked
        again, until it has refused for two minutes on end.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        cancellation = cancellation or Cancellation()
        pause = _FIRST_POLL_S
        refused_since: Optional[float] = None
        while True:
            wait = pause
            asked = time.monotonic()
            try:
                self.refresh()
                if self.ended:
                    return self
                refused_since = None
            except UpscaledError as error:
                refused_since = asked if refused_since is None else refused_since
                refused = time.monotonic() - refused_since
                if not error.retryable or refused >= MAX_TOTAL_WAIT_S:
                    raise
                wait = max(pause, wait_before(0, error.retry_after or 0))
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"job {self.id} is {self.state} after {timeout} s")
                wait = min(wait, left)
            cancellation.sleep(wait)
            pause = min(1.5 * pause, _LAST_POLL_S)

    def result(
        self, timeout: Optional[float] = None, cancellation: Optional[Cancellation] = None
    ) -> "Result":
        """Waits for the job and returns its image.

        Raises the error that it failed with, and an UpscaledError of the reason "CANCELLED" if it
        was cancelled. `timeout` is that of wait().
        """
        cancellation = cancellation or Cancellation()
        self.wait(timeout, cancellation)
        if self.state == "cancelled":
            raise UpscaledError({"detail": "the job was cancelled", "reason": "CANCELLED"})
        if self.error:
            raise error_of({"detail": self.error["message"], "reason": self.error["reason"]})
        result = self._client._result(f"/v1/jobs/{self.id}/result", cancellation)
        if self.size:
            result.width, result.height = self.size["width_px"], self.size["height_px"]
        return result

    def cancel(self) -> None:
        """Cancels the job, or removes the result of one that has ended."""
        self._client._discard(f"/v1/jobs/{self.id}")
