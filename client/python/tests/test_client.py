"""The clients against a server that is not real: answers that a real one gives rarely."""

import asyncio
import contextvars
import io
import json
import os
import pathlib
import re
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from fake_server import FakeServer  # noqa: E402
from upscaled_client import (  # noqa: E402
    AsyncClient,
    BusyError,
    CallCancelled,
    Cancellation,
    Client,
    ConnectionBroken,
    InvalidImageError,
    LimitExceededError,
    ServerError,
    UnauthorizedError,
    UpscaledError,
    Url,
    sign_url,
)
from upscaled_client.errors import error_of  # noqa: E402

IMAGE = os.urandom(100_000)


class SignTest(unittest.TestCase):
    def test_refuses_what_the_server_would(self):
        key = "site:" + "k" * 32
        url = sign_url("http://h/", "https://a.example/c%C3%A9t.png?x=(1)", key=key, expires_in=60)
        self.assertIn("&expires=", url)
        for source in ("https://a/b c", "https://a/é", "/cat.png", "ftp://a/b", "https://a/%zz"):
            with self.assertRaisesRegex(ValueError, "percent-encoded"):
                sign_url("http://h", source, key=key)
        with self.assertRaisesRegex(ValueError, "number of seconds"):
            sign_url("http://h", "https://a/b", key=key, expires_in=float("nan"))


class ClientTest(unittest.TestCase):
    def test_a_url_is_no_path(self):
        client = Client("http://127.0.0.1:1")
        with self.assertRaisesRegex(TypeError, r"use Url\('https://a/b.png'\)"):
            client.upscale("https://a/b.png")

    def setUp(self):
        self.server = FakeServer()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.client = Client(self.server.url + "/", api_key="secret", timeout=20)

    def test_sends_options_and_key_and_returns_the_result(self):
        with self.client.upscale(
            IMAGE, scale=2.5, tta=True, noise_level=None, request_id="id"
        ) as result:
            self.assertEqual(result.read(), IMAGE)
        self.assertEqual(
            (result.request_id, result.model, result.content_type), ("id", "echo", "image/png")
        )
        path, query, headers, body = self.server.calls[0]
        self.assertEqual((path, body), ("/v1/upscale", IMAGE))
        self.assertEqual(query, {"scale": "2.5", "tta": "true", "request_id": "id"})
        self.assertEqual(headers["Authorization"], "Bearer secret")

    def test_a_job_is_submitted_waited_for_and_fetched(self):
        job = self.client.submit(
            IMAGE, scale=2, reference="order 7", webhook="https://example.org/hook"
        )
        path, query, headers, body = self.server.calls[0]
        self.assertEqual((path, body), ("/v1/upscale", IMAGE))
        self.assertEqual(
            query, {"scale": "2", "reference": "order 7", "webhook": "https://example.org/hook"}
        )
        self.assertEqual(headers["Prefer"], "respond-async")
        self.assertEqual((job.id, job.state, job.reference), ("ok", "waiting", "order 7"))
        self.assertEqual((job.warnings, job.webhook), ([], None), "of an earlier release's server")
        with job.result(timeout=20) as result:
            self.assertEqual(result.read(), b"an image")
        self.assertEqual((result.width, result.height, result.etag), (20, 10, '"abc"'))
        self.assertEqual((job.state, job.ended), ("done", True))
        self.assertEqual(job.warnings, ["alpha is left out"])
        self.assertEqual(result.warnings, job.warnings)
        self.assertEqual(job.webhook["error"], "the answer was 500")

    def test_a_wait_goes_on_when_the_server_is_full_for_a_moment(self):
        job = self.client.job("refused").wait(timeout=20)
        self.assertEqual((job.state, self.server.asked["refused"]), ("done", 3))

    def test_a_jobs_failure_and_its_cancellation_are_raised(self):
        with self.assertRaises(InvalidImageError):
            self.client.submit(IMAGE, model="bad").result()
        job = self.client.job("other")
        job.cancel()
        with self.assertRaises(UpscaledError) as raised:
            job.result()
        self.assertEqual(raised.exception.reason, "CANCELLED")
        with self.assertRaises(TimeoutError):
            self.client.job("waits").wait(timeout=0.1)

    def test_a_server_that_keeps_no_jobs_is_an_error(self):
        with self.assertRaisesRegex(UpscaledError, "keeps no jobs"):
            self.client.submit(IMAGE, model="none")

    def test_a_jobs_events_end_with_its_state(self):
        job = self.client.job("ok")
        events = [(event["event"], event.get("state")) for event in job.events()]
        self.assertEqual(events, [("state", "running"), ("tiles", None), ("state", "done")])
        self.assertEqual(job.size, {"width_px": 20, "height_px": 10})

    def test_batches_are_of_urls_or_of_images(self):
        urls = [Url("https://a.example/1.png"), Url("https://a.example/2.png")]
        (job,) = self.client.submit_batch(urls, references=["one", "two"], noise_level=1)
        self.assertEqual((job.id, job.batch), ("ok", "b"))
        path, query, headers, body = self.server.calls[0]
        jobs = [
            {"url": "https://a.example/1.png", "reference": "one"},
            {"url": "https://a.example/2.png", "reference": "two"},
        ]
        self.assertEqual(json.loads(body), {"noise_level": 1, "jobs": jobs})
        self.assertEqual(headers["Content-Type"], "application/json")
        with tempfile.NamedTemporaryFile(suffix=".png") as file:
            file.write(b"second")
            file.flush()
            self.client.submit_batch([b"first", pathlib.Path(file.name)], scale=3)
        path, query, headers, body = self.server.calls[1]
        self.assertEqual(query, {"scale": "3"})
        self.assertEqual(body.count(b' name="image"'), 2)
        self.assertLess(body.index(b"first"), body.index(b"second"))
        with self.assertRaises(ValueError):
            self.client.submit_batch([b"first", urls[0]])

    def test_lists_jobs_page_by_page(self):
        jobs = self.client.jobs(state="waiting", batch="b")
        self.assertEqual([job.id for job in jobs], ["second", "first"])
        self.assertEqual(self.server.calls[0][0], "/v1/jobs?state=waiting&batch=b")

    def test_jobs_are_for_asyncio_too(self):
        async def run():
            client = AsyncClient(self.server.url, timeout=20)
            job = await client.submit(IMAGE)
            async with await job.result() as result:
                self.assertEqual(await result.read(), b"an image")
            self.assertEqual(job.state, "done")
            self.assertEqual(len(await client.submit_batch([b"a"])), 1)

        asyncio.run(run())

    def test_sends_the_priority_of_a_call(self):
        self.server.calls.clear()
        self.client.upscale(IMAGE, priority="background").read()
        self.client.upscale(IMAGE).read()
        sent = [headers.get("Upscale-Priority") for _, _, headers, _ in self.server.calls]
        self.assertEqual(sent, ["background", None])
        self.assertNotIn("priority", self.server.calls[0][1])

    def traces_sent(self, client, **options):
        self.server.calls.clear()
        client.upscale(IMAGE, **options).read()
        self.assertNotIn("traceparent", self.server.calls[0][1])
        return [headers.get("traceparent") for _, _, headers, _ in self.server.calls]

    def test_sends_the_trace_that_a_call_belongs_to(self):
        given, told, own = (f"00-{d * 32}-{d * 16}-01" for d in "123")
        traces = [told, None]
        for traceparent, options, *sent in (
            (None, {}, None),
            (given, {}, given),
            (lambda: traces.pop(0), {"model": "busy", "retries": 2}, told, told, told),
            (lambda: traces.pop(0), {}, None),  # Outside of any span.
            (given, {"traceparent": lambda: own}, own),
        ):
            client = Client(self.server.url, traceparent=traceparent, timeout=20)
            self.assertEqual(self.traces_sent(client, **options), sent)

    def test_goes_on_with_the_trace_of_opentelemetry(self):
        # As its API, which is no dependency: the current context is of the task or thread.
        current = contextvars.ContextVar("trace", default=None)

        def inject(fields):
            if current.get():
                fields["traceparent"] = current.get()

        trace = "00-" + "4" * 32 + "-" + "4" * 16 + "-01"
        propagate = types.SimpleNamespace(inject=inject)
        with mock.patch.dict(sys.modules, {"opentelemetry.propagate": propagate}):
            self.assertEqual(self.traces_sent(self.client), [None])
            current.set(trace)
            self.assertEqual(self.traces_sent(self.client), [trace])
            self.server.calls.clear()

            async def upscale():
                async with await AsyncClient(self.server.url).upscale(IMAGE) as result:
                    await result.read()

            asyncio.run(upscale())
            self.assertEqual(self.server.calls[0][2]["traceparent"], trace)
            current.set(None)

    def test_tells_what_a_key_is_refused_for(self):
        for status, reason in (
            (401, "UNAUTHENTICATED"),
            (403, "PERMISSION_DENIED"),
            (401, None),  # A proxy's.
            (403, None),
        ):
            error = error_of({"status": status, "reason": reason, "detail": "no"})
            self.assertIsInstance(error, UnauthorizedError)
            self.assertFalse(error.retryable)

    def test_has_a_class_for_every_reason_and_tries_none_again_but_a_full_servers(self):
        source = pathlib.Path(__file__).resolve().parents[3] / "server/base/error.cc"
        names = re.search(r"kReasonNames[^;]*", source.read_text()).group()
        reasons = re.findall(r"[A-Z_]{5,}", names)
        self.assertIn("DEADLINE_INFEASIBLE", reasons)
        for reason in reasons:
            if reason == "UNSPECIFIED":
                continue
            # As an unknown status would be told.
            full, unknown = (error_of({"status": s, "reason": reason}) for s in (429, 599))
            self.assertIs(type(full), type(unknown), reason)
            self.assertEqual(full.retryable, reason in ("OVERLOADED", "DRAINING"), reason)

    def test_sends_chunks_and_files_as_they_come(self):
        with self.client.upscale(IMAGE[i : i + 999] for i in range(0, len(IMAGE), 999)) as result:
            self.assertEqual(result.read(), IMAGE)
        self.assertEqual(self.server.calls[0][2]["Transfer-Encoding"], "chunked")
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder, "a.png"), pathlib.Path(folder, "b.jpg")
            source.write_bytes(IMAGE)
            self.client.upscale_file(source, target)
            self.assertEqual(target.read_bytes(), IMAGE)
            self.assertEqual(self.server.calls[1][1]["format"], "jpg")

    def test_has_the_server_fetch_a_url_as_often_as_it_has_to(self):
        url = Url("https://images.example.org/cat.png?key=a&b=c")
        with tempfile.TemporaryDirectory() as folder:
            self.client.upscale_file(
                url, pathlib.Path(folder, "b.webp"), scale=2, model="busy", retries=2
            )
        with self.assertRaises(ConnectionBroken):  # The server is not one that judges.
            self.client.dry_run(url)
        self.assertEqual(len(self.server.calls), 4)
        for _, query, headers, body in self.server.calls:
            self.assertEqual((query["url"], body), (url.text, b""))
            self.assertEqual(headers["Content-Length"], "0")
            self.assertNotIn("Content-Type", headers)
        self.assertEqual(self.server.calls[0][1]["format"], "webp")
        self.assertEqual(self.server.calls[3][1]["dry_run"], "1")

    def test_never_overwrites_the_source(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "a.png")
            source.write_bytes(b"source")
            pathlib.Path(folder, "soft.png").symlink_to(source)
            os.link(source, pathlib.Path(folder, "hard.png"))
            for target in ("a.png", "soft.png", "hard.png", "../" + source.parent.name + "/a.png"):
                with self.assertRaisesRegex(ValueError, "same file"):
                    self.client.upscale_file(source, os.path.join(folder, target))
            self.assertEqual(source.read_bytes(), b"source")
        self.assertEqual(self.server.calls, [])

    def test_a_targets_ending_and_its_format_agree_or_differ_aloud(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "a.png")
            source.write_bytes(IMAGE)
            for name in ("x.gif", "x.txt"):
                with self.assertRaisesRegex(ValueError, f"{name} ends in none of: png, jpg"):
                    self.client.upscale_file(source, source.with_name(name))
            self.assertEqual(self.server.calls, [])
            for name, warnings in (
                ("x.PNG", []),
                ("x", []),
                ("x.jpg", ["the target is png, though its name ends in .jpg"]),
                ("x.gif", ["the target is png, though its name ends in .gif"]),
            ):
                result = self.client.upscale_file(source, source.with_name(name), format="png")
                self.assertEqual(result.warnings, warnings, name)

    def test_a_result_is_read_once(self):
        for read_again in (
            lambda result: result.read(),
            lambda result: result.save_to(io.BytesIO()),
            lambda result: next(iter(result)),
        ):
            result = self.client.upscale(IMAGE)
            self.assertEqual(result.read(), IMAGE)
            with self.assertRaisesRegex(ValueError, "read or closed before"):
                read_again(result)
        result = self.client.upscale(IMAGE)
        result.close()
        with self.assertRaisesRegex(ValueError, "read or closed before"):
            result.read()

    def test_the_callers_mistakes_are_no_errors_of_the_network(self):
        for call in (self.client.upscale, self.client.submit, self.client.dry_run):
            for image in (None, 7, object()):
                with self.assertRaisesRegex(TypeError, f"not {type(image).__name__}"):
                    call(image)
            with open(__file__, encoding="utf-8") as text, self.assertRaisesRegex(TypeError, "rb"):
                call(text)
        for images in ("a.png", b"image", pathlib.Path("a.png"), Url("https://example.org/a")):
            with self.assertRaisesRegex(TypeError, "not a list of images"):
                self.client.submit_batch(images)
        with self.assertRaisesRegex(TypeError, "not NoneType"):
            self.client.submit_batch([IMAGE, None])
        for key in ("a\nb", "key\n", "a key", "\N{KEY}"):
            with self.assertRaisesRegex(ValueError, "api_key"):
                Client(self.server.url, api_key=key)
        self.assertEqual(self.server.calls, [])

    def test_an_image_that_cannot_be_read_names_itself(self):
        def breaks(error):
            yield IMAGE
            raise error

        with self.assertRaisesRegex(FileNotFoundError, "nope.png"):
            self.client.upscale("nope.png")
        with self.assertRaisesRegex(FileNotFoundError, "nope.png"):
            self.client.submit_batch([IMAGE, "nope.png"])
        for error in (OSError(5, "the disk is broken"), BrokenPipeError("a pipe"), KeyError("k")):
            with self.assertRaises(type(error)) as raised:
                self.client.upscale(breaks(error))
            self.assertIs(raised.exception, error)

    def test_leaves_no_file_of_a_result_that_broke_off(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "a.png")
            source.write_bytes(IMAGE)
            with self.assertRaises(ConnectionBroken):
                self.client.upscale_file(source, pathlib.Path(folder, "b.png"), model="broken")
            self.assertEqual(os.listdir(folder), ["a.png"])

    def test_names_the_limit_of_an_image_refused_before_it_was_read(self):
        with self.assertRaises(LimitExceededError) as caught:
            self.client.upscale(bytes(20_000_000), model="limit")
        error = caught.exception
        self.assertEqual((error.limit, error.value, error.maximum), ("max-source-bytes", "9", "8"))
        self.assertEqual(
            (error.status, error.reason, error.request_id), (413, "LIMIT_EXCEEDED", "r")
        )

    def test_tries_again_only_when_asked(self):
        with self.assertRaises(BusyError) as caught:
            self.client.upscale(IMAGE, model="busy")
        self.assertEqual(caught.exception.retry_after, 0)
        with self.client.upscale(IMAGE, model="busy", retries=2) as result:
            self.assertEqual(result.read(), IMAGE)

    def test_never_sends_a_stream_again(self):
        with self.assertRaises(BusyError):
            self.client.upscale(iter([IMAGE]), model="busy", retries=5)
        self.assertEqual(len(self.server.calls), 1)

    def test_a_refusal_with_a_moment_costs_time_and_no_try(self):
        with self.assertRaises(BusyError):
            self.client.upscale(IMAGE, model="full")
        with self.client.upscale(IMAGE, model="full", retries=1) as result:
            self.assertEqual(result.read(), IMAGE)
        self.assertEqual(len(self.server.calls), 4)

    def test_reports_progress(self):
        events = []
        with self.client.upscale(IMAGE, on_progress=events.append) as result:
            result.read()
        self.assertEqual([event["event"] for event in events], ["started", "tiles", "done"])
        self.assertEqual((events[1]["tiles_done"], events[1]["tiles"]), (1, 2))

    def test_reports_the_progress_of_the_next_try_and_no_failure_of_the_one_before_it(self):
        events = []
        result = self.client.upscale(
            IMAGE, model="busy-broken", request_id="busy", retries=2, on_progress=events.append
        )
        with self.assertRaises(ConnectionBroken):
            result.read()
        self.assertEqual([event["event"] for event in events], ["started", "tiles", "done"])

    def test_tells_why_a_result_broke_off(self):
        events = []
        with self.assertRaises(ServerError) as caught:
            self.client.upscale(
                IMAGE, model="broken", request_id="ffff", on_progress=events.append
            ).read()
        self.assertEqual(str(caught.exception), "it burns")
        self.assertEqual(events[-1]["event"], "failed")

    def test_leaving_a_result_ends_the_connection(self):
        with self.client.upscale(IMAGE, model="endless") as result:
            next(iter(result))
        self.assertTrue(self.server.gone.wait(20))

    def test_cancels_from_another_thread(self):
        cancellation = Cancellation()
        result = self.client.upscale(IMAGE, model="endless", cancellation=cancellation)
        threading.Timer(0.1, cancellation.cancel).start()
        with self.assertRaises(CallCancelled), open(os.devnull, "wb") as file:
            result.save_to(file)
        self.assertTrue(self.server.gone.wait(20))

    def test_errors_of_others(self):
        self.assertEqual(self.client.models(), [{"name": "m"}])
        with self.assertRaises(UpscaledError) as caught:
            self.client.info()
        self.assertEqual(caught.exception.status, 404)
        with self.assertRaises(ConnectionBroken):
            Client("http://127.0.0.1:1").models()
        with self.assertRaises(ValueError):
            Client("localhost:8000")


class AsyncClientTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.server = FakeServer()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.client = AsyncClient(self.server.url)

    async def test_reads_and_iterates(self):
        events = []
        async with await self.client.upscale(IMAGE, on_progress=events.append) as result:
            self.assertEqual(await result.read(), IMAGE)
        self.assertEqual(result.model, "echo")
        self.assertEqual(events[-1]["event"], "done")
        url = Url("https://images.example.org/cat.png")
        async with await self.client.upscale(url) as result:
            self.assertEqual(await result.read(), b"")
        self.assertEqual(self.server.calls[-1][1]["url"], url.text)
        async with await self.client.upscale(IMAGE) as result:
            self.assertEqual(b"".join([chunk async for chunk in result]), IMAGE)

    async def test_cancelling_a_task_ends_the_connection(self):
        async def count():
            async with await self.client.upscale(IMAGE, model="endless") as result:
                async for _ in result:
                    began.set()

        began = asyncio.Event()
        task = asyncio.create_task(count())
        await began.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue(await asyncio.to_thread(self.server.gone.wait, 20))


if __name__ == "__main__":
    unittest.main()
