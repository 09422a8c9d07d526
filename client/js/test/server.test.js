// The client against a real server, at $UPSCALED_URL; skipped without one.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { crc32OfChunks, noisePng, sizeOfPng } from "./png.js";
import * as upscaled from "../upscaled.js";

const url = process.env.UPSCALED_URL;
const options = { skip: !url && "UPSCALED_URL is not set" };
const imageUrl = process.env.UPSCALED_IMAGE_URL; // that the server may fetch
const fetchOptions = { skip: options.skip || (!imageUrl && "UPSCALED_IMAGE_URL is not set") };
const client = new upscaled.UpscaledClient(url ?? "http://localhost");

test("upscales, streams and reports progress", options, async () => {
  const events = [];
  const source = noisePng(301, 207);
  const result = await client.upscale(source, {
    scale: 2,
    onProgress: (event) => events.push(event),
  });
  const chunks = [];
  for await (const chunk of result) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  assert.deepEqual(sizeOfPng(bytes), { width: 602, height: 414 });
  assert.deepEqual([result.width, result.height, result.contentType], [602, 414, "image/png"]);
  assert.equal(result.model, "general-2x");
  assert.ok(chunks.length > 1);
  while (events.at(-1)?.event !== "done") await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(events.at(-1).tiles_done, events.at(-1).tiles);
  assert.equal(events.at(-1).tiles, result.tiles);

  async function* parts() {
    for (let at = 0; at < source.length; at += 1000) yield source.subarray(at, at + 1000);
  }
  const again = await (await client.upscale(parts(), { scale: 2, tilePx: 64 })).bytes();
  assert.equal(
    crc32OfChunks([again]),
    crc32OfChunks(chunks),
    "tiles or the way of sending changed the result",
  );
});

test("has the server fetch what a URL names, where it may", fetchOptions, async () => {
  const source = new URL(imageUrl);
  const image = await (await fetch(source)).blob();
  const result = await (await client.upscale(source, { scale: 2 })).bytes();
  assert.deepEqual(result, await (await client.upscale(image, { scale: 2 })).bytes());
  assert.equal((await client.dryRun(source)).accepted, true);
  for (const call of [client.upscale, client.dryRun]) {
    await assert.rejects(call.call(client, new URL("/elsewhere.png", source)), (error) => {
      assert.ok(error instanceof upscaled.InvalidOptionError, String(error));
      assert.deepEqual([error.reason, error.status], ["SOURCE_REFUSED", 403]);
      return true;
    });
  }
});

test("judges an image by its header", options, async () => {
  const verdict = await client.dryRun(noisePng(500, 400).subarray(0, 4096), {
    widthPx: 1500,
    format: "webp",
  });
  assert.deepEqual([verdict.source.width_px, verdict.source.height_px], [500, 400]);
  assert.deepEqual(
    [verdict.result.width_px, verdict.result.height_px, verdict.result.format],
    [1500, 1200, "webp"],
  );
  assert.equal(verdict.accepted, true);
});

test("refusals are errors of their classes", options, async () => {
  const image = noisePng(20, 20);
  await assert.rejects(client.upscale(randomBytes(300)), upscaled.InvalidImageError);
  await assert.rejects(client.upscale(image, { scale: 99 }), upscaled.InvalidOptionError);
  await assert.rejects(client.upscale(image, { model: "none-such" }), upscaled.UnknownModelError);
  await assert.rejects(client.upscale(image, { wrong: 1 }), upscaled.InvalidOptionError);
  await assert.rejects(
    client.upscale(image.subarray(0, 500)).then((result) => result.blob()),
    upscaled.UpscaledError,
  );
  await assert.rejects(client.dryRun(noisePng(2000, 2, { claimedHeight: 900_000 })), (error) => {
    assert.ok(error instanceof upscaled.LimitExceededError, String(error));
    assert.ok(error.limit && error.value && error.maximum, JSON.stringify(error.problem));
    return true;
  });
});

test("aborting stops the work on the server", options, async () => {
  const stopper = new AbortController();
  const requestId = upscaled.newRequestId();
  const image = noisePng(1500, 1500);
  const call = client.upscale(image, { scale: 4, tta: true, requestId, signal: stopper.signal });
  const aborted = assert.rejects(
    call.then((result) => result.blob()),
    { name: "AbortError" },
  );
  let last;
  for await (const event of client.progress(requestId)) {
    last = event;
    if (event.event === "tiles") stopper.abort();
  }
  assert.equal(last.event, "failed");
  assert.equal(last.reason, "CANCELLED");
  await aborted;
});

test("tells of models and of itself", options, async () => {
  const models = await client.models();
  assert.ok(models.some((model) => model.is_default && model.noise_levels.includes(-1)));
  assert.equal((await client.model("fast-2x")).name, "fast-2x");
  const info = await client.info();
  assert.equal(info.devices[0].name, "cpu");
  assert.ok(Number(info.limits.max_source_pixels) > 0);
});
