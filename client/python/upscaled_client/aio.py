"""The client for asyncio: the blocking one on threads, whose connections are cut when a task is
cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import Any, AsyncIterator, Callable, Dict, Iterable, List, Optional

from .cancellation import Cancellation
from .client import Client, Image, PathText, Result
from .jobs import Job


class AsyncResult:
    """As Result; an asynchronous context manager and iterator."""

    def __init__(self, result: Result, cancellation: Cancellation):
        self._result = result
        self._cancellation = cancellation

    def __getattr__(self, name: str) -> Any:
        """request_id, model, width, height, tiles, content_type, etag, file_name."""
        return getattr(self._result, name)

    async def __aenter__(self) -> "AsyncResult":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._cancellation.cancel()
        await asyncio.to_thread(self._result.close)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = iter(self._result)
        while True:
            chunk = await _on_thread(self._cancellation, next, chunks, None)
            if chunk is None:
                return
            yield chunk

    async def read(self) -> bytes:
        """The whole result."""
        return b"".join([chunk async for chunk in self])

    async def save(self, path: PathText) -> int:
        """As Result.save."""
        return await _on_thread(self._cancellation, self._result.save, path)


async def _on_thread(
    cancellation: Cancellation, function: Callable[..., Any], *arguments: Any
) -> Any:
    """Runs a blocking function; when the task is cancelled, so is the call, and the thread ends
    soon."""
    try:
        return await asyncio.to_thread(function, *arguments)
    except asyncio.CancelledError:
        cancellation.cancel()
        raise


class AsyncJob:
    """As Job."""

    def __init__(self, job: Job):
        self._job = job

    def __getattr__(self, name: str) -> Any:
        """id, state, batch, reference, progress, size, error, ended, facts."""
        return getattr(self._job, name)

    def __repr__(self) -> str:
        return repr(self._job)

    async def refresh(self) -> "AsyncJob":
        await asyncio.to_thread(self._job.refresh)
        return self

    async def wait(self, timeout: Optional[float] = None) -> "AsyncJob":
        """As Job.wait. Cancelling the task ends only the wait."""
        cancellation = Cancellation()
        await _on_thread(cancellation, self._job.wait, timeout, cancellation)
        return self

    async def result(self, timeout: Optional[float] = None) -> AsyncResult:
        """As Job.result. Cancelling the task ends only the wait."""
        cancellation = Cancellation()
        result = await _on_thread(cancellation, self._job.result, timeout, cancellation)
        return AsyncResult(result, cancellation)

    async def cancel(self) -> None:
        await asyncio.to_thread(self._job.cancel)


class AsyncClient:
    """As Client, of the same arguments. `on_progress` is called on the event loop."""

    def __init__(self, server: str, **settings: Any):
        self._client = Client(server, **settings)

    async def upscale(self, image: Image, **options: Any) -> AsyncResult:
        """As Client.upscale. Cancelling the task stops the work on the server."""
        if options.get("on_progress"):
            loop, on_progress = asyncio.get_running_loop(), options["on_progress"]

            def report(event: Dict[str, Any]) -> None:
                with contextlib.suppress(RuntimeError):  # The loop is closed.
                    loop.call_soon_threadsafe(on_progress, event)

            options["on_progress"] = report
        cancellation = Cancellation()
        call = functools.partial(self._client.upscale, image, cancellation=cancellation, **options)
        result = await _on_thread(cancellation, call)
        return AsyncResult(result, cancellation)

    async def submit(self, image: Image, **options: Any) -> AsyncJob:
        """As Client.submit."""
        cancellation = Cancellation()
        call = functools.partial(self._client.submit, image, cancellation=cancellation, **options)
        return AsyncJob(await _on_thread(cancellation, call))

    async def submit_batch(self, images: Iterable[Image], **options: Any) -> List[AsyncJob]:
        """As Client.submit_batch."""
        jobs = await asyncio.to_thread(self._client.submit_batch, images, **options)
        return [AsyncJob(job) for job in jobs]

    async def job(self, id: str) -> AsyncJob:
        """As Client.job."""
        return AsyncJob(await asyncio.to_thread(self._client.job, id))

    async def dry_run(self, image: Image, **options: Any) -> Dict[str, Any]:
        return await asyncio.to_thread(self._client.dry_run, image, **options)

    async def models(self) -> List[Dict[str, Any]]:
        return await asyncio.to_thread(self._client.models)

    async def model(self, name: str) -> Dict[str, Any]:
        return await asyncio.to_thread(self._client.model, name)

    async def info(self) -> Dict[str, Any]:
        return await asyncio.to_thread(self._client.info)
