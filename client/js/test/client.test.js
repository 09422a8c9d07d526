// The client against a server that is not real: answers that a real one gives rarely.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { after, before, beforeEach, test } from "node:test";
import * as upscaled from "../upscaled.js";
import { signUrl } from "../sign.js";
import { startFakeServer } from "./fake_server.js";

const IMAGE = new Uint8Array(randomBytes(100_000));
let server;
let client;

before(async () => {
  server = await startFakeServer();
  client = new upscaled.UpscaledClient(server.url + "/", { apiKey: "secret" });
});
beforeEach(() => (server.calls.length = 0));
after(() => server.close());

test("signs only what the server takes", () => {
  const key = `site:${"k".repeat(32)}`;
  const source = "https://a.example/c%C3%A9t.png?x=(1)";
  assert.match(signUrl("http://h/", source, { key, expiresIn: 60 }), /&expires=\d+&sig=/);
  for (const wrong of ["https://a/b c", "https://a/é", "/cat.png", "ftp://a/b", "https://a/%zz"]) {
    assert.throws(() => signUrl("http://h", wrong, { key }), /percent-encoded/);
  }
  assert.throws(() => signUrl("http://h", source, { key, expiresIn: "abc" }), /number of seconds/);
});

test("sends options and key, and returns the result", async () => {
  const result = await client.upscale(IMAGE, {
    scale: 2.5,
    tta: true,
    noiseLevel: undefined,
    requestId: "id",
  });
  assert.deepEqual(await result.bytes(), IMAGE);
  assert.equal(result.requestId, "id");
  assert.equal(result.model, "echo");
  assert.equal(result.width, 20);
  assert.equal(result.contentType, "image/png");
  assert.equal(result.fileName, "upscaled-2x.png");
  const [{ path, query, headers }] = server.calls;
  assert.equal(path, "/v1/upscale");
  assert.deepEqual(query, { scale: "2.5", tta: "true", request_id: "id" });
  assert.equal(headers.authorization, "Bearer secret");
});

test("sends the priority of a call", async () => {
  server.calls.length = 0;
  const client = new upscaled.UpscaledClient(server.url);
  await (await client.upscale(IMAGE, { priority: "background" })).bytes();
  await (await client.upscale(IMAGE)).bytes();
  assert.deepEqual(
    server.calls.map(({ headers }) => headers["upscale-priority"]),
    ["background", undefined],
  );
  assert.ok(!("priority" in server.calls[0].query));
});

test("sends the trace that a call belongs to", async () => {
  const [given, told, own] = ["1", "2", "3"].map((d) => `00-${d.repeat(32)}-${d.repeat(16)}-01`);
  const traces = [told, undefined];
  for (const [traceparent, options, ...sent] of [
    [undefined, {}, undefined],
    [given, {}, given],
    [() => traces.shift(), { model: "busy", retries: 2 }, told, told, told], // all tries
    [() => traces.shift(), {}, undefined], // outside of any span
    [given, { traceparent: () => own }, own],
  ]) {
    server.calls.length = 0;
    const traced = new upscaled.UpscaledClient(server.url, { traceparent });
    await (await traced.upscale(IMAGE, options)).bytes();
    assert.deepEqual(
      server.calls.map(({ headers }) => headers.traceparent),
      sent,
    );
    assert.ok(!("traceparent" in server.calls[0].query));
  }
});

test("tells what a key is refused for", () => {
  for (const [status, reason] of [
    [401, "UNAUTHENTICATED"],
    [403, "PERMISSION_DENIED"],
    [401, undefined], // a proxy's
    [403, undefined],
  ]) {
    const error = upscaled.errorOf({ status, reason, detail: "no" });
    assert.ok(error instanceof upscaled.UnauthorizedError, `${status} ${reason}`);
    assert.ok(!error.retryable);
  }
});

test("has a class for every reason, and tries none again but a full server's", () => {
  const source = readFileSync(new URL("../../../server/base/error.cc", import.meta.url), "utf8");
  const reasons = source.match(/kReasonNames[^;]*/)[0].match(/[A-Z_]{5,}/g);
  assert.ok(reasons.includes("DEADLINE_INFEASIBLE") && reasons.length > 15);
  for (const reason of reasons.filter((name) => name !== "UNSPECIFIED")) {
    // As an unknown status would be told.
    const of = (status) => upscaled.errorOf({ status, reason, retry_after_seconds: 1 });
    assert.equal(of(429).constructor, of(599).constructor, `${reason} has no class`);
    assert.equal(of(429).retryable, ["OVERLOADED", "DRAINING"].includes(reason), reason);
  }
});

test("names options as the service does", async () => {
  const options = {
    noiseLevel: 0,
    widthPx: 5,
    heightPx: 6,
    pngCompression: 9,
    keep16Bit: true,
    tilePx: 64,
    noEnlarge: true,
    alphaColour: "keep",
    metadata: "strip-location",
    depth: 8,
    requestId: "id",
  };
  await (await client.upscale(IMAGE, options)).blob();
  const { request_id: _, ...query } = server.calls[0].query;
  const names = {
    noise_level: "0",
    width_px: "5",
    height_px: "6",
    png_compression: "9",
    keep_16_bit: "true",
    tile_px: "64",
    no_enlarge: "true",
    alpha_colour: "keep",
    metadata: "strip-location",
    depth: "8",
  };
  assert.deepEqual(query, names);
});

test("sends a Blob with its type, and chunks as they come", async () => {
  await (await client.upscale(new Blob([IMAGE], { type: "image/webp" }))).blob();
  assert.equal(server.calls[0].headers["content-type"], "image/webp");
  async function* chunks() {
    for (let at = 0; at < IMAGE.length; at += 999) yield IMAGE.subarray(at, at + 999);
  }
  assert.deepEqual(await (await client.upscale(chunks())).bytes(), IMAGE);
  assert.equal(server.calls[1].headers["transfer-encoding"], "chunked");
});

test("has the server fetch what a URL names, as often as it has to", async () => {
  const url = new URL("https://images.example.org/cat 1.png?key=a&b=c");
  await (await client.upscale(url, { model: "busy", retries: 2, scale: 2 })).blob();
  await client.dryRun(url).catch(() => {}); // the server is not one that judges
  assert.equal(server.calls.length, 4);
  for (const { query, headers, body } of server.calls) {
    assert.equal(query.url, "https://images.example.org/cat%201.png?key=a&b=c");
    assert.equal(headers["content-length"], "0");
    assert.equal(headers["content-type"], undefined);
    assert.equal(body.length, 0);
  }
  assert.equal(server.calls[0].query.scale, "2");
  assert.equal(server.calls[3].query.dry_run, "1");
});

test("names the limit that was passed", async () => {
  await assert.rejects(client.upscale(IMAGE, { model: "limit" }), (error) => {
    assert.ok(
      error instanceof upscaled.LimitExceededError && error instanceof upscaled.UpscaledError,
    );
    assert.deepEqual(
      [error.name, error.limit, error.value, error.maximum],
      ["LimitExceededError", "max-source-bytes", "9", "8"],
    );
    assert.deepEqual(
      [error.status, error.reason, error.requestId, error.message],
      [413, "LIMIT_EXCEEDED", "r", "9 bytes"],
    );
    return true;
  });
});

test("tries again only when asked, and never a stream", async () => {
  await assert.rejects(client.upscale(IMAGE, { model: "busy" }), (error) => {
    assert.ok(error instanceof upscaled.BusyError && error.retryable);
    assert.equal(error.retryAfter, 0);
    return true;
  });
  await assert.rejects(
    client.upscale(new Blob([IMAGE]).stream(), { model: "busy", retries: 5 }),
    upscaled.BusyError,
  );
  assert.equal(server.calls.length, 2);
  const result = await client.upscale(IMAGE, { model: "busy", retries: 1 });
  assert.deepEqual(await result.bytes(), IMAGE);
});

test("a refusal with a moment costs time, and no try", async () => {
  const own = await startFakeServer();
  const full = new upscaled.UpscaledClient(own.url);
  await assert.rejects(full.upscale(IMAGE, { model: "full" }), upscaled.BusyError);
  const result = await full.upscale(IMAGE, { model: "full", retries: 1 });
  assert.deepEqual(await result.bytes(), IMAGE);
  assert.equal(own.calls.length, 4);
  own.close();
});

test("reports progress", async () => {
  const events = [];
  await (await client.upscale(IMAGE, { onProgress: (event) => events.push(event) })).blob();
  while (events.at(-1)?.event !== "done") await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(events.slice(0, 2), [
    { event: "started" },
    { event: "tiles", tiles_done: 1, tiles: 2 },
  ]);
});

test("reports the progress of the next try, and no failure of the one before it", async () => {
  const own = await startFakeServer();
  const events = [];
  const broken = await new upscaled.UpscaledClient(own.url).upscale(IMAGE, {
    model: "busy-broken",
    requestId: "busy",
    retries: 2,
    onProgress: ({ event }) => events.push(event),
  });
  await assert.rejects(broken.blob(), upscaled.ConnectionError);
  assert.deepEqual(events, ["started", "tiles", "done"]);
  own.close();
});

test("tells why a result broke off", async () => {
  const broken = await client.upscale(IMAGE, { model: "broken" });
  await assert.rejects(broken.blob(), upscaled.ConnectionError);
  let last;
  const onProgress = ({ event }) => (last = event);
  const told = await client.upscale(IMAGE, { model: "broken", requestId: "ffff", onProgress });
  await assert.rejects(
    told.blob(),
    (error) => error instanceof upscaled.ServerError && error.message === "it burns",
  );
  assert.equal(last, "failed");
});

test("aborts", async () => {
  const stopper = new AbortController();
  const result = await client.upscale(IMAGE, { model: "endless", signal: stopper.signal });
  const whole = result.blob();
  stopper.abort(new Error("enough"));
  await assert.rejects(whole, /enough/);
  await server.gone;
  await assert.rejects(client.upscale(IMAGE, { signal: AbortSignal.abort() }), {
    name: "AbortError",
  });
});

test("aborts though fetch has lost the signal, as that of Node 18 may", async () => {
  const own = await startFakeServer();
  const forgetful = (url, { signal, ...init }) => fetch(url, init);
  const lost = new upscaled.UpscaledClient(own.url, { fetch: forgetful });
  const stopper = new AbortController();
  const result = await lost.upscale(IMAGE, { model: "endless", signal: stopper.signal });
  const whole = result.blob();
  stopper.abort(new Error("enough"));
  await assert.rejects(whole, /enough/);
  await own.gone;
  own.close();
});

test("an aborted wait for events ends though fetch has lost the signal", async () => {
  let cancelled;
  const body = new ReadableStream({ cancel: (reason) => (cancelled = reason) });
  const silent = async () => new Response(body, { status: 200 });
  const lost = new upscaled.UpscaledClient("http://nowhere", { fetch: silent });
  const stopper = new AbortController();
  const events = lost.progress("id", { signal: stopper.signal });
  const first = events.next();
  await new Promise((resolve) => setTimeout(resolve, 20));
  stopper.abort(new Error("enough"));
  await assert.rejects(first, /enough/);
  assert.equal(cancelled?.message, "enough");
});

test("leaving a result ends the connection", async () => {
  const own = await startFakeServer();
  const result = await new upscaled.UpscaledClient(own.url).upscale(IMAGE, { model: "endless" });
  for await (const _ of result) break;
  await own.gone;
  own.close();
});

test("cancelling a result that nobody has read ends the connection", async () => {
  const own = await startFakeServer();
  const result = await new upscaled.UpscaledClient(own.url).upscale(IMAGE, { model: "endless" });
  await result.body.cancel();
  await own.gone;
  own.close();
});

test("other answers and none", async () => {
  assert.deepEqual(await client.models(), [{ name: "m" }]);
  await assert.rejects(client.info(), {
    name: "UpscaledError",
    status: 404,
    message: "nothing here",
  });
  await assert.rejects(
    new upscaled.UpscaledClient("http://127.0.0.1:1").models(),
    upscaled.ConnectionError,
  );
  assert.match(
    upscaled.newRequestId(),
    /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  );
});

test("a job is submitted, waited for and fetched", async () => {
  const options = { scale: 2, reference: "order 7", webhook: "https://example.org/hook" };
  const job = await client.submit(IMAGE, options);
  const [{ query, headers }] = server.calls;
  assert.deepEqual(query, { scale: "2", reference: "order 7", webhook: "https://example.org/hook" });
  assert.equal(headers.prefer, "respond-async");
  assert.deepEqual([job.id, job.state, job.reference, job.ended], ["ok", "waiting", "order 7", false]);
  assert.deepEqual([job.warnings, job.webhook], [[], null], "of an earlier release's server");
  const result = await job.result();
  assert.equal(Buffer.from(await result.bytes()).toString(), "an image");
  assert.deepEqual([result.width, result.height, result.etag], [20, 10, '"abc"']);
  assert.deepEqual([job.state, job.ended], ["done", true]);
  assert.deepEqual(job.warnings, ["alpha is left out"]);
  assert.deepEqual(result.warnings, job.warnings);
  assert.equal(job.webhook.error, "the answer was 500");
  const again = await client.job("ok");
  assert.equal(again.state, "done");
});

test("a wait for a job goes on when the server is full for a moment", async () => {
  const job = await client.job("refused");
  assert.equal((await job.wait()).state, "done");
  assert.equal(server.calls.filter(({ path }) => path === "/v1/jobs/refused").length, 3);
});

test("a job's failure and its cancellation are thrown", async () => {
  const bad = await client.submit(IMAGE, { model: "bad" });
  await assert.rejects(bad.result(), upscaled.InvalidImageError);
  const job = await client.job("other");
  await job.cancel();
  assert.equal(server.calls.at(-1).method, "DELETE");
  await assert.rejects(job.result(), (error) => error.reason === "CANCELLED");
});

test("a server that keeps no jobs is an error, not an image", async () => {
  await assert.rejects(client.submit(IMAGE, { model: "none" }), /keeps no jobs/);
});

test("a job's events end with its state", async () => {
  const job = await client.job("ok");
  const events = [];
  for await (const { event, state } of job.events()) events.push(`${event} ${state ?? ""}`.trim());
  assert.deepEqual(events, ["state running", "tiles", "state done"]);
  assert.deepEqual(job.size, { width_px: 20, height_px: 10 });
});

test("aborting ends the wait for a job", async () => {
  const job = await client.job("waits");
  const abort = new AbortController();
  const waiting = job.wait({ signal: abort.signal });
  abort.abort();
  await assert.rejects(waiting, { name: "AbortError" });
});

test("batches are of URLs or of images", async () => {
  const urls = [new URL("https://a.example/1.png"), new URL("https://a.example/2.png")];
  const [job] = await client.submitBatch(urls, { noiseLevel: 1 });
  assert.deepEqual([job.id, job.batch], ["ok", "b"]);
  const call = server.calls.find(({ path }) => path === "/v1/jobs");
  assert.deepEqual(JSON.parse(call.body), { jobs: urls.map((url) => ({ url: url.href })) });
  assert.deepEqual(call.query, { noise_level: "1" });
  assert.equal(call.headers["content-type"], "application/json");
  await client.submitBatch([new Blob(["first"]), Buffer.from("second")]);
  const form = server.calls.at(-1);
  assert.match(form.headers["content-type"], /^multipart\/form-data; boundary=/);
  assert.equal(form.body.match(/ name="image"/g).length, 2);
  assert.match(form.body, /first[^]*second/);
});

test("a caller's mistakes are no errors of the network", async () => {
  const calls = [(i) => client.upscale(i), (i) => client.submit(i), (i) => client.dryRun(i)];
  const none = new Map([[undefined, "undefined"], [null, "null"], [7, "number"], [{}, "object"]]);
  for (const call of calls)
    for (const [image, name] of none)
      await assert.rejects(call(image), { name: "TypeError", message: new RegExp(`not ${name}$`) });
  for (const images of ["a.png", IMAGE, new Blob(["image"])])
    await assert.rejects(client.submitBatch(images), { name: "TypeError", message: /list/ });
  const url = new URL("https://a.example/1.png");
  for (const images of [[IMAGE, undefined], [url, IMAGE], ["text"], [new Response("x").body]])
    await assert.rejects(client.submitBatch(images), { name: "TypeError", message: /alone/ });
  assert.equal(server.calls.length, 0);
  for (const apiKey of ["a\nb", "key\n", "a key", "schl\u00fcssel"])
    assert.throws(() => new upscaled.UpscaledClient(server.url, { apiKey }), {
      name: "TypeError",
      message: /^apiKey/,
    });
});

test("a result is read once", async () => {
  const whole = { name: "TypeError", message: /read before/ };
  const result = await client.upscale(IMAGE);
  assert.deepEqual(await result.bytes(), IMAGE);
  await assert.rejects(result.bytes(), whole);
  await assert.rejects(result.blob(), whole);
  const body = await client.upscale(IMAGE);
  for await (const chunk of body.body) assert.ok(chunk.length);
  await assert.rejects(body.bytes(), whole);
  const left = await client.upscale(IMAGE);
  await left.body.cancel();
  await assert.rejects(left.bytes(), whole);
});

test("lists jobs page by page", async () => {
  const ids = [];
  for await (const job of client.jobs({ state: "waiting", batch: "b" })) ids.push(job.id);
  assert.deepEqual(ids, ["second", "first"]);
  assert.deepEqual(server.calls[0].query, { state: "waiting", batch: "b" });
});
