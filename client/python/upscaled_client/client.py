"""The blocking client."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import ssl
import stat
import sys
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Union
from urllib.parse import quote, urlencode, urlsplit

from .cancellation import Cancellation
from .errors import ConnectionBroken, UpscaledError, error_of, error_of_response
from .jobs import Job
from .retry import MAX_TOTAL_WAIT_S, wait_before


@dataclass(frozen=True)
class Url:
    """An image that the server fetches itself, from hosts that its --fetch-allow lists."""

    text: str


#: Bytes, a path, a Url, an open binary file, or chunks, which are sent as they come.
Image = Union[
    bytes, bytearray, memoryview, str, "os.PathLike[str]", Url, BinaryIO, Iterable[bytes]
]
PathText = Union[str, "os.PathLike[str]"]
Progress = Callable[[Mapping[str, Any]], None]
#: The caller's traceparent (W3C Trace Context), or what tells it, call by call.
Traceparent = Union[str, Callable[[], Optional[str]]]

_CHUNK_BYTES = 64 * 1024
#: By a target's ending.
_FORMATS = {
    "png": "png",
    "jpg": "jpeg",
    "jpeg": "jpeg",
    "webp": "webp",
    "avif": "avif",
    "jxl": "jxl",
    "tif": "tiff",
    "tiff": "tiff",
}
_NETWORK_ERRORS = (OSError, http.client.HTTPException)


class Result:
    """An answer whose bytes come while they are computed.

    Iterate over it, or use read(), save() or save_to(). A context manager: leaving it early stops
    the work on the server. Not thread safe; a Cancellation ends it from elsewhere.
    """

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        watch: "Optional[_Watch]",
        cancellation: Cancellation,
    ):
        self._connection = connection
        self._response = response
        self._watch = watch
        self._cancellation = cancellation
        self._taken = False
        header = response.getheader
        self.request_id: str = header("X-Request-Id") or ""
        self.model: str = header("Upscale-Model") or ""
        self.width: int = int(header("Upscale-Width") or 0)
        self.height: int = int(header("Upscale-Height") or 0)
        self.tiles: int = int(header("Upscale-Tiles") or 0)
        self.content_type: str = (header("Content-Type") or "").split(";")[0]
        self.etag: str = header("ETag") or ""
        found = re.search(r'filename="([^"]*)"', header("Content-Disposition") or "")
        self.file_name: str = found[1] if found else ""
        #: Sentences about all that is dropped or changed, as far as the image's header tells.
        self.warnings: List[str] = re.findall(r'"([^"]*)"', header("Upscale-Warning") or "")

    def __enter__(self) -> "Result":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        if self._taken:
            raise ValueError("the result was read or closed before: keep what read() returns")
        self._taken = True
        return self._chunks()

    def _chunks(self) -> Iterator[bytes]:
        length = self._response.getheader("Content-Length")
        left = None if length is None else int(length)  # read1() does not count before Python 3.13
        while left != 0:
            try:
                chunk = self._response.read1(
                    _CHUNK_BYTES if left is None else min(left, _CHUNK_BYTES)
                )
                if left is not None:
                    left -= len(chunk)
                    if not chunk:
                        raise http.client.IncompleteRead(b"", left)
            except _NETWORK_ERRORS as error:
                raise self._why_broken(error) from error
            if not chunk:
                break
            yield chunk
        if self._watch:
            self._watch.wait()
        self.close()

    def read(self) -> bytes:
        """The whole result."""
        return b"".join(self)

    def save_to(self, file: BinaryIO) -> int:
        """Writes the result to an open file; returns its size."""
        size = 0
        for chunk in self:
            file.write(chunk)
            size += len(chunk)
        return size

    def save(self, path: PathText) -> int:
        """Writes the result to a file, which appears under its name when it is whole; returns its
        size."""
        target = Path(path)
        part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
        try:
            with open(part, "xb") as file:
                size = self.save_to(file)
            os.replace(part, target)
            return size
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise

    def close(self) -> None:
        """Ends the connection, and so the work on the server if it goes on."""
        self._taken = True
        self._connection.close()
        self._response.close()
        if self._watch:
            self._watch.stop()

    def _why_broken(self, error: Exception) -> UpscaledError:
        failure = self._watch.wait() if self._watch and not self._cancellation.cancelled else None
        self.close()
        self._cancellation.check()
        return failure or ConnectionBroken({"detail": f"the result broke off: {error!r}"})


class _Watch:
    """A thread that passes the events of one try on: how it failed when it is known to be the last
    one. Losing them never fails the request."""

    def __init__(self, client: "Client", request_id: str, on_progress: Progress):
        self._failure: Optional[UpscaledError] = None
        self._cancellation = Cancellation()
        self._settled = threading.Event()
        self._is_last = False
        self._thread = threading.Thread(
            target=self._run, args=(client, request_id, on_progress), daemon=True
        )
        self._thread.start()

    def _run(self, client: "Client", request_id: str, on_progress: Progress) -> None:
        with contextlib.suppress(UpscaledError, *_NETWORK_ERRORS, ValueError):
            for event in client._events(request_id, self._cancellation):
                if event["event"] == "failed":
                    self._failure = error_of(event)
                    self._settled.wait()
                    if not self._is_last:
                        return
                on_progress(event)

    def keep(self) -> None:
        """No other try will follow."""
        self._is_last = True
        self._settled.set()

    def wait(self) -> Optional[UpscaledError]:
        """Waits for the last event, though not for long; None: none told of a failure."""
        if threading.current_thread() is not self._thread:
            self._thread.join(1)
        return self._failure

    def stop(self) -> None:
        self._settled.set()
        self._cancellation.cancel()


class Client:
    """A server. Thread safe: it holds no connection, each call makes its own."""

    def __init__(
        self,
        server: str,
        *,
        api_key: Optional[str] = None,
        timeout: Optional[float] = 60,
        retries: int = 0,
        ssl_context: Optional[ssl.SSLContext] = None,
        traceparent: Optional[Traceparent] = None,
    ):
        """`timeout`: seconds without a byte, not of the whole call.

        `retries`: further tries of a full server. `traceparent`: the trace that calls belong to;
        default: OpenTelemetry's current one, in a program that uses that.
        """
        url = urlsplit(server)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"the server {server!r} is no URL such as http://localhost:8000")
        if api_key and not re.fullmatch("[!-~]+", api_key):
            raise ValueError("api_key has a space, a line end or another character of no key")
        self._https = url.scheme == "https"
        self._address = (url.hostname, url.port)
        self._prefix = url.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = timeout
        self._retries = retries
        self._ssl_context = ssl_context
        self._traceparent = traceparent or _current_traceparent

    def upscale(
        self,
        image: Image,
        *,
        on_progress: Optional[Progress] = None,
        retries: Optional[int] = None,
        request_id: Optional[str] = None,
        cancellation: Optional[Cancellation] = None,
        traceparent: Optional[Traceparent] = None,
        priority: Optional[str] = None,
        **options: Any,
    ) -> Result:
        """Upscales an image, which the server fetches itself if it is a Url; returns when the first
        bytes come.

        `options` are the service's: model, noise_level, scale, width_px, height_px, tta, format
        ("png", "jpeg", "webp", and "avif", "jxl", "tiff" where the server writes them), quality and so on. `on_progress` is called with each event, on a thread of its own.
        `traceparent`: the trace that the call belongs to; default: the client's. `priority`:
        "background" computes only while no interactive work is queued.
        """
        request_id = request_id or str(uuid.uuid4())
        body, options = _body_and_options(image, options)
        query = _query({**options, "request_id": request_id})
        cancellation = cancellation or Cancellation()
        watch: Optional[_Watch] = None  # of the last try

        def on_try() -> None:
            nonlocal watch
            if watch:
                watch.stop()
            watch = _Watch(self, request_id, on_progress) if on_progress else None

        try:
            connection, response = self._call(
                "POST",
                f"/v1/upscale?{query}",
                body,
                retries,
                cancellation,
                on_try,
                traceparent,
                {"Upscale-Priority": priority} if priority else None,
            )
            if watch:
                watch.keep()
            return Result(connection, response, watch, cancellation)
        except BaseException:
            if watch:
                watch.keep()
                watch.stop()
            raise

    def upscale_file(
        self, source: Union[PathText, Url], target: PathText, **options: Any
    ) -> Result:
        """Upscales one file into another. The ending of `target` chooses the format unless an
        option does; then a warning of the result tells of another ending.

        Raises a ValueError if the two are one file, or no format has this ending.
        """
        target = Path(target)
        image = source if isinstance(source, Url) else Path(source)
        if image is not source and target.exists() and target.samefile(image):
            raise ValueError(f"source and target are the same file: {target}")
        ending = target.suffix.lower().lstrip(".")
        if options.get("format") is None and ending:
            if ending not in _FORMATS:
                raise ValueError(f"target {target} ends in none of: {', '.join(_FORMATS)}")
            options["format"] = ending
        with self.upscale(image, **options) as result:
            result.save(target)
        written = result.content_type.rpartition("/")[2]
        if ending and written and _FORMATS.get(ending) != written:
            result.warnings.append(f"the target is {written}, though its name ends in .{ending}")
        return result

    def submit(
        self,
        image: Image,
        *,
        webhook: Optional[str] = None,
        reference: Optional[str] = None,
        retries: Optional[int] = None,
        cancellation: Optional[Cancellation] = None,
        traceparent: Optional[Traceparent] = None,
        **options: Any,
    ) -> Job:
        """Queues an image as a job, which goes on when this program has ended.

        `webhook`: a URL that is told of the end. `reference`: your own name for the job. `options`
        are those of upscale(). Raises an UpscaledError if the server keeps no jobs.
        """
        body, options = _body_and_options(image, options)
        query = _query({**options, "webhook": webhook, "reference": reference})
        facts = self._json(
            "POST",
            f"/v1/upscale?{query}",
            body,
            retries,
            traceparent,
            cancellation,
            {"Prefer": "respond-async"},
        )
        return Job(self, facts)

    def submit_batch(
        self,
        images: Iterable[Image],
        *,
        webhook: Optional[str] = None,
        references: Optional[Iterable[str]] = None,
        **options: Any,
    ) -> List[Job]:
        """Queues many images in one call: all of them, or none.

        Either all images are Urls, which workers fetch, or none is. `references`: your own names
        for jobs of Urls, one for each. `options` are those of all images.
        """
        if isinstance(images, (bytes, bytearray, memoryview, str, os.PathLike, Url)):
            raise TypeError(f"images is one {type(images).__name__}, not a list of images")
        images = [_checked(image) for image in images]
        shared = {**options, "webhook": webhook}
        if all(isinstance(image, Url) for image in images):
            shared = {name: value for name, value in shared.items() if value is not None}
            jobs: List[Dict[str, str]] = [{"url": image.text} for image in images]
            for job, reference in zip(jobs, references or ()):
                job["reference"] = reference
            body = json.dumps({**shared, "jobs": jobs}).encode()
            facts = self._json(
                "POST", "/v1/jobs", body, headers={"Content-Type": "application/json"}
            )
        else:
            if references is not None:
                raise ValueError("references are for batches of Urls")
            boundary = uuid.uuid4().hex
            facts = self._json(
                "POST",
                f"/v1/jobs?{_query(shared)}",
                _form(images, boundary),
                headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
            )
        return [Job(self, job) for job in facts["jobs"]]

    def job(self, id: str) -> Job:
        """A job that was submitted before."""
        return Job(self, {"id": quote(id, safe="")}).refresh()

    def jobs(
        self,
        *,
        state: Optional[str] = None,
        batch: Optional[str] = None,
        reference: Optional[str] = None,
    ) -> Iterator[Job]:
        """Your jobs, the latest first, page by page. Without a key, name a batch."""
        path = f"/v1/jobs?{_query({'state': state, 'batch': batch, 'reference': reference})}"
        while path:
            page = self._json("GET", path)
            for facts in page["jobs"]:
                yield Job(self, facts)
            path = page["next"]

    def dry_run(
        self,
        image: Image,
        *,
        retries: Optional[int] = None,
        traceparent: Optional[Traceparent] = None,
        **options: Any,
    ) -> Dict[str, Any]:
        """The plan of upscale(), from the image's header alone; raises the error that it would
        get."""
        body, options = _body_and_options(image, options)
        return self._json(
            "POST", f"/v1/upscale?{_query({**options, 'dry_run': 1})}", body, retries, traceparent
        )

    def models(self) -> List[Dict[str, Any]]:
        """The models on offer."""
        return self._json("GET", "/v1/models").get("models", [])

    def model(self, name: str) -> Dict[str, Any]:
        """One model."""
        answer = self._json("GET", f"/v1/models/{quote(name, safe='')}")
        return answer.get("model", answer)

    def info(self) -> Dict[str, Any]:
        """Version, devices, limits and formats."""
        return self._json("GET", "/v1/info")

    def progress(self, request_id: str) -> Iterator[Dict[str, Any]]:
        """The events of a request until it is done or has failed.

        May be called before the request.
        """
        return self._events(request_id, Cancellation())

    def _events(self, request_id: str, cancellation: Cancellation) -> Iterator[Dict[str, Any]]:
        return self._stream(f"/v1/progress/{quote(request_id, safe='')}", cancellation)

    def _stream(self, path: str, cancellation: Cancellation) -> Iterator[Dict[str, Any]]:
        connection, response = self._call("GET", path, None, 0, cancellation)
        with contextlib.closing(connection), response:
            yield from _parse_events(response)

    def _result(self, path: str, cancellation: Cancellation) -> Result:
        connection, response = self._call("GET", path, None, None, cancellation)
        return Result(connection, response, None, cancellation)

    def _discard(self, path: str) -> None:
        connection, _ = self._call("DELETE", path, None, None, Cancellation())
        connection.close()

    def _json(
        self,
        method: str,
        path: str,
        image: Optional[Image] = None,
        retries: Optional[int] = None,
        traceparent: Optional[Traceparent] = None,
        cancellation: Optional[Cancellation] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Dict[str, Any]:
        connection, response = self._call(
            method,
            path,
            image,
            retries,
            cancellation or Cancellation(),
            traceparent=traceparent,
            headers=headers,
        )
        try:
            if (headers or {}).get("Prefer") and response.status != 202:
                raise UpscaledError({"detail": "the server keeps no jobs (job-queue)"})
            return json.loads(response.read())
        except (*_NETWORK_ERRORS, ValueError) as error:
            raise ConnectionBroken({"detail": f"the answer broke off: {error!r}"}) from error
        finally:
            connection.close()

    def _call(
        self,
        method,
        path,
        image,
        retries,
        cancellation,
        on_try=lambda: None,
        traceparent=None,
        headers=None,
    ):
        """The connection and its successful answer.

        Tries again while the server is full, if the image can be sent again; calls `on_try` before
        each try. A refusal that says when to come back costs the time until then, and no try.
        """
        if retries is None:
            retries = self._retries
        repeatable = (
            image is None
            or isinstance(image, (bytes, bytearray, memoryview))
            or (isinstance(image, (str, os.PathLike)) and Path(image).is_file())
        )
        trace = self._trace_headers(traceparent)  # of all tries
        headers = {**self._headers, **trace, **(headers or {})}
        tries = 0
        waited = 0.0
        while True:
            on_try()
            connection = self._connect()
            try:
                _open(connection, cancellation)
                return connection, self._exchange(connection, method, path, image, headers)
            except UpscaledError as error:
                connection.close()
                cancellation.check()
                if not (error.retryable and repeatable):
                    raise
                asked = error.retry_after or 0
                if retries <= 0 or (asked <= 0 and tries >= retries):
                    raise
                wait = wait_before(tries, asked)
                waited += wait
                if waited > MAX_TOTAL_WAIT_S:
                    raise
                cancellation.sleep(wait)
                if asked <= 0:
                    tries += 1
            except BaseException:
                connection.close()
                raise

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address
        if self._https:
            return http.client.HTTPSConnection(
                host, port, timeout=self._timeout, context=self._ssl_context
            )
        return http.client.HTTPConnection(host, port, timeout=self._timeout)

    def _trace_headers(self, traceparent: Optional[Traceparent]) -> Dict[str, str]:
        trace = traceparent or self._traceparent
        text = trace() if callable(trace) else trace
        return {"traceparent": text} if text else {}

    def _exchange(self, connection, method, path, image, headers) -> http.client.HTTPResponse:
        headers = dict(headers)
        if image is not None:
            headers.setdefault("Content-Type", "application/octet-stream")
        with contextlib.ExitStack() as stack:
            body = image
            if isinstance(image, (str, os.PathLike)):
                body = stack.enter_context(open(image, "rb"))
                facts = os.fstat(body.fileno())
                if stat.S_ISREG(facts.st_mode):
                    headers["Content-Length"] = str(facts.st_size)
                else:  # a pipe has no size
                    body = _own_errors(_chunks(body))
            elif body is not None and not isinstance(body, (bytes, bytearray, memoryview)):
                body = _own_errors(_chunks(body))
            try:
                connection.request(method, self._prefix + path, body, headers)
            except _SourceError as error:
                raise error.__cause__ from None
            except (BrokenPipeError, ConnectionResetError) as error:
                # A server that refuses an image answers before all of it is there.
                broken = error
            except _NETWORK_ERRORS as error:
                raise ConnectionBroken({"detail": f"the upload broke off: {error!r}"}) from error
            else:
                broken = None
        try:
            response = connection.getresponse()
        except _NETWORK_ERRORS as error:
            raise ConnectionBroken({"detail": f"no answer: {broken or error!r}"}) from error
        if response.status >= 300:
            raise error_of_response(response)
        return response


def _current_traceparent() -> Optional[str]:
    """OpenTelemetry's, if the program has loaded it and is within a span."""
    propagate = sys.modules.get("opentelemetry.propagate")
    if propagate is None:
        return None
    fields: Dict[str, str] = {}
    propagate.inject(fields)
    return fields.get("traceparent")


class _SourceError(Exception):
    """The caller's image cannot be read; its cause says why."""


def _own_errors(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks; an error of reading them is not taken for the network's."""
    try:
        yield from chunks
    except Exception as error:
        raise _SourceError from error


def _checked(image: Image) -> Image:
    known = (bytes, bytearray, memoryview, str, os.PathLike, Url)
    if isinstance(image, io.TextIOBase):
        raise TypeError('the image is a file of text: open it with "rb"')
    if isinstance(image, str) and re.match("https?://", image, re.IGNORECASE):
        raise TypeError(f"the image is the text of a URL: use Url({image!r})")
    if isinstance(image, known) or hasattr(image, "read") or hasattr(image, "__iter__"):
        return image
    raise TypeError(
        "an image is bytes, a path, a Url, an open binary file or chunks of bytes, "
        f"not {type(image).__name__}"
    )


def _body_and_options(image: Image, options: Dict[str, Any]):
    """The body and the options to send: a Url is an option."""
    _checked(image)
    return (None, {**options, "url": image.text}) if isinstance(image, Url) else (image, options)


def _chunks(image: Image) -> Iterator[bytes]:
    if isinstance(image, (bytes, bytearray, memoryview)):
        yield bytes(image)
    elif isinstance(image, (str, os.PathLike)):
        with open(image, "rb") as file:
            yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
    elif hasattr(image, "read"):
        yield from iter(lambda: image.read(_CHUNK_BYTES), b"")
    else:
        yield from image


def _form(images: Iterable[Image], boundary: str) -> Iterator[bytes]:
    """multipart/form-data with a part for each image."""
    for image in images:
        if isinstance(image, Url):
            raise ValueError("a batch has only Urls, or none")
        name = Path(image).name if isinstance(image, (str, os.PathLike)) else "image"
        name = re.sub(r'[\r\n"]', "_", name)
        yield (
            f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        yield from _chunks(image)
        yield b"\r\n"
    yield f"--{boundary}--\r\n".encode()


def _open(connection: http.client.HTTPConnection, cancellation: Cancellation) -> None:
    try:
        connection.connect()
    except _NETWORK_ERRORS as error:
        where = f"{connection.host}:{connection.port}"
        raise ConnectionBroken(
            {"detail": f"cannot reach the server at {where}: {error}"}
        ) from error
    cancellation.hold(connection.sock)


def _parse_events(lines: Iterable[bytes]) -> Iterator[Dict[str, Any]]:
    """The events of a text/event-stream; comments are left out."""
    event, data = "message", []
    for line in lines:
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif not name and not value:
            if data:
                yield {"event": event, **json.loads("\n".join(data))}
            event, data = "message", []


def _query(options: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return urlencode(
        {name: text(value) for name, value in options.items() if value is not None and value != ""}
    )
