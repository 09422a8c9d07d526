"""The clients against a real server, at $UPSCALED_URL; skipped without one."""

import asyncio
import os
import pathlib
import struct
import sys
import tempfile
import threading
import unittest
import urllib.parse
import urllib.request
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import upscaled_client as up  # noqa: E402

URL = os.environ.get("UPSCALED_URL")
IMAGE_URL = os.environ.get("UPSCALED_IMAGE_URL")  # that the server may fetch


def noise_png(width, height, claimed_height=None):
    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, claimed_height or height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + os.urandom(3 * width) for _ in range(height))
    data = zlib.compress(rows, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def png_size(data):
    assert (
        data[:8] == b"\x89PNG\r\n\x1a\n" and data[-8:-4] == b"IEND"
    ), f"no whole PNG of {len(data)} bytes"
    return struct.unpack(">II", data[16:24])


@unittest.skipUnless(URL, "UPSCALED_URL is not set")
class ServerTest(unittest.TestCase):
    def setUp(self):
        self.client = up.Client(URL, timeout=120)

    def test_upscales_streams_and_reports_progress(self):
        events = []
        source = noise_png(301, 207)
        with self.client.upscale(source, scale=2, on_progress=events.append) as result:
            chunks = list(result)
        data = b"".join(chunks)
        self.assertEqual(png_size(data), (602, 414))
        self.assertEqual(
            (result.width, result.height, result.content_type), (602, 414, "image/png")
        )
        self.assertEqual(result.model, "general-2x")
        self.assertEqual(events[-1]["event"], "done")
        self.assertEqual(events[-1]["tiles_done"], result.tiles)
        parts = (source[at : at + 1000] for at in range(0, len(source), 1000))
        with self.client.upscale(parts, scale=2, tile_px=64) as result:
            self.assertEqual(result.read(), data)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder, "a.png"), pathlib.Path(folder, "b.webp")
            source.write_bytes(noise_png(64, 48))
            self.client.upscale_file(source, target, width_px=100)
            self.assertEqual(target.read_bytes()[8:12], b"WEBP")

    @unittest.skipUnless(IMAGE_URL, "UPSCALED_IMAGE_URL is not set")
    def test_has_the_server_fetch_a_url_where_it_may(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(IMAGE_URL) as answer:
            image = answer.read()
        with self.client.upscale(up.Url(IMAGE_URL), scale=2) as fetched:
            with self.client.upscale(image, scale=2) as sent:
                self.assertEqual(fetched.read(), sent.read())
        self.assertIs(self.client.dry_run(up.Url(IMAGE_URL))["accepted"], True)
        elsewhere = up.Url(urllib.parse.urljoin(IMAGE_URL, "/elsewhere.png"))
        for call in (self.client.upscale, self.client.dry_run):
            with self.assertRaises(up.InvalidOptionError) as caught:
                call(elsewhere)
            self.assertEqual(
                (caught.exception.reason, caught.exception.status), ("SOURCE_REFUSED", 403)
            )

    def test_judges_an_image_by_its_header(self):
        verdict = self.client.dry_run(noise_png(500, 400)[:4096], width_px=1500)
        self.assertEqual(
            (verdict["result"]["width_px"], verdict["result"]["height_px"]), (1500, 1200)
        )
        self.assertIs(verdict["accepted"], True)

    def test_refusals_are_errors_of_their_classes(self):
        image = noise_png(20, 20)
        for error, source, options in (
            (up.InvalidImageError, os.urandom(300), {}),
            (up.InvalidOptionError, image, {"scale": 99}),
            (up.InvalidOptionError, image, {"wrong": 1}),
            (up.UnknownModelError, image, {"model": "none-such"}),
        ):
            with self.subTest(error=error.__name__, **options), self.assertRaises(error):
                self.client.upscale(source, **options).read()
        with self.assertRaises(up.LimitExceededError) as caught:
            self.client.dry_run(noise_png(2000, 2, claimed_height=900_000))
        self.assertTrue(
            caught.exception.limit and caught.exception.maximum, caught.exception.problem
        )

    def test_cancelling_stops_the_work_on_the_server(self):
        cancellation, request_id, errors = (
            up.Cancellation(),
            "11111111-2222-4333-8444-555555555555",
            [],
        )

        def call():
            try:
                image = noise_png(1500, 1500)
                self.client.upscale(
                    image, scale=4, tta=True, request_id=request_id, cancellation=cancellation
                ).read()
            except up.UpscaledError as error:
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        for event in self.client.progress(request_id):
            if event["event"] == "tiles":
                cancellation.cancel()
        thread.join(60)
        self.assertEqual((event["event"], event.get("reason")), ("failed", "CANCELLED"))
        self.assertIsInstance(errors[0], up.CallCancelled)

    def test_tells_of_models_and_of_itself(self):
        self.assertIn("general-2x", [model["name"] for model in self.client.models()])
        self.assertEqual(self.client.model("fast-2x")["name"], "fast-2x")
        self.assertEqual(self.client.info()["devices"][0]["name"], "cpu")

    def test_asyncio(self):
        async def run():
            client = up.AsyncClient(URL)
            source = noise_png(80, 60)
            results = await asyncio.gather(*[client.upscale(source, scale=2) for _ in range(3)])
            return [await result.read() for result in results]

        data = asyncio.run(run())
        self.assertEqual(png_size(data[0]), (160, 120))
        self.assertEqual(data[0], data[2])


if __name__ == "__main__":
    unittest.main()
