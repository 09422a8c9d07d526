// A server that answers as the model in a request's query says.

import { once } from "node:events";
import http from "node:http";
import { setTimeout } from "node:timers/promises";

const IMAGE = Buffer.from("an image");

/**
 * {url, calls: [{path, query, headers, body}], gone: a promise of the endless answer's end,
 * close()}.
 */
export async function startFakeServer() {
  const calls = [];
  let busyListeners = 0; // of requests called "busy", which are refused twice
  let noteGone;
  const gone = new Promise((resolve) => (noteGone = resolve));

  function sendJson(response, status, value, headers = {}) {
    response.writeHead(status, { "content-type": "application/problem+json", ...headers });
    response.end(JSON.stringify({ ...value, status }));
  }

  function sendEvents(request, response) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (request.url.endsWith("busy") && ++busyListeners < 3) {
      response.end('event: failed\ndata: {"reason":"OVERLOADED","detail":"full"}\n\n');
      return;
    }
    response.write(": a comment\n\nevent: started\ndata: {}\n\nevent: ti");
    response.write('les\r\ndata: {"tiles_done":1,\r\ndata: "tiles":2}\r\n\r\n');
    const last = request.url.endsWith("ffff") ? "failed" : "done";
    response.end(`event: ${last}\ndata: {"reason":"DEVICE_FAILURE","detail":"it burns"}\n\n`);
  }

  // Jobs end when they have been asked for three times: "ok" is done, others fail; DELETE cancels. The second
  // question about "refused" is, and then it is done.
  const asked = {};
  function sendJob(request, response) {
    const id = request.url.split("/")[3];
    const times = (asked[id] = (asked[id] ?? 0) + 1);
    calls.push({ path: request.url, method: request.method });
    if (request.method === "DELETE") {
      asked[id] = -Infinity;
      response.writeHead(204).end();
      return;
    }
    if (request.url.endsWith("/result")) {
      const warning = '"alpha is left out"';
      response.writeHead(200, { "content-type": "image/png", etag: '"abc"', "upscale-warning": warning });
      response.end(IMAGE);
      return;
    }
    if (id === "refused" && times === 2) {
      sendJson(response, 429, { reason: "OVERLOADED", retry_after_seconds: 0.01 });
      return;
    }
    const size = { width_px: 20, height_px: 10 };
    const error = { code: "INVALID_ARGUMENT", reason: "INVALID_IMAGE", message: "no image" };
    const warnings = ["alpha is left out"];
    const webhook = { state: "waiting", tries: 1, error: "the answer was 500" };
    let job = { id, state: "running", progress: { tiles_done: 1, tiles: 2 } };
    if (times === -Infinity) job = { id, state: "cancelled" };
    else if (times > 2 && (id === "ok" || id === "refused")) job = { id, state: "done", size, warnings, webhook };
    else if (times > 2) job = { id, state: "failed", error };
    if (request.url.endsWith("/events")) {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`event: state\ndata: ${JSON.stringify({ id, state: "running" })}\n\n`);
      response.write('event: tiles\ndata: {"tiles_done":1,"tiles":2}\n\n');
      response.end(`event: state\ndata: ${JSON.stringify({ id, state: "done", size })}\n\n`);
      return;
    }
    sendJson(response, 200, job);
  }

  function sendJobs(request, response) {
    const query = Object.fromEntries(new URL(request.url, "http://fake").searchParams);
    calls.push({ path: "/v1/jobs", query });
    const id = query.before ? "first" : "second";
    const next = query.before ? null : "/v1/jobs?before=second";
    sendJson(response, 200, { jobs: [{ id, state: "waiting" }], next });
  }

  async function submitBatch(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString("latin1");
    const url = new URL(request.url, "http://fake");
    calls.push({ path: url.pathname, query: Object.fromEntries(url.searchParams), body, headers: request.headers });
    sendJson(response, 202, { batch: "b", jobs: [{ id: "ok", state: "waiting", batch: "b" }] });
  }

  async function upscale(request, response) {
    const url = new URL(request.url, "http://fake");
    const query = Object.fromEntries(url.searchParams);
    const model = query.model ?? "echo";
    if (model === "limit") {
      const metadata = { limit: "max-source-bytes", value: "9", maximum: "8" };
      sendJson(response, 413, {
        reason: "LIMIT_EXCEEDED",
        detail: "9 bytes",
        metadata,
        request_id: "r",
      });
      return;
    }
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    calls.push({ path: url.pathname, query, headers: request.headers, body });
    if (model.startsWith("busy") && calls.length < 3) {
      if (query.request_id === "busy") await setTimeout(100); // its listener has heard of it
      sendJson(response, 429, { reason: "OVERLOADED", detail: "full" }, { "retry-after": "0" });
      return;
    }
    if (request.headers.prefer === "respond-async" && model !== "none") {
      sendJson(response, 202, { id: model === "bad" ? "bad" : "ok", state: "waiting", reference: query.reference });
      return;
    }
    if (model === "full" && calls.filter(({ query }) => query.model === "full").length < 4) {
      sendJson(response, 429, { reason: "OVERLOADED", retry_after_seconds: 0.01 });
      return;
    }
    response.writeHead(200, {
      "content-type": "image/png",
      "x-request-id": query.request_id ?? "",
      "upscale-model": model,
      "upscale-width": "20",
      "content-disposition": 'inline; filename="upscaled-2x.png"',
    });
    response.write(body.subarray(0, 10));
    if (model.endsWith("broken")) {
      await setTimeout(50);
      response.destroy();
    } else if (model === "endless") {
      response.on("close", noteGone);
    } else {
      response.end(body.subarray(10));
    }
  }

  const server = http.createServer((request, response) => {
    if (request.url.startsWith("/v1/jobs/")) sendJob(request, response);
    else if (request.url.startsWith("/v1/jobs") && request.method === "GET") sendJobs(request, response);
    else if (request.url.startsWith("/v1/jobs")) submitBatch(request, response).catch(() => response.destroy());
    else if (request.method === "POST") upscale(request, response).catch(() => response.destroy());
    else if (request.url.startsWith("/v1/progress/")) sendEvents(request, response);
    else if (request.url === "/v1/models") sendJson(response, 200, { models: [{ name: "m" }] });
    else sendJson(response, 404, { detail: "nothing here" });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, calls, gone, close };
}
