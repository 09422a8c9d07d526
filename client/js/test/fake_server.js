// A server that answers as the model in a request's query says.

import { once } from "node:events";
import http from "node:http";
import { setTimeout } from "node:timers/promises";

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
    if (model === "full" && calls.filter(({ query }) => query.model === "full").length < 4) {
      sendJson(response, 429, { reason: "OVERLOADED", retry_after_seconds: 0.01 });
      return;
    }
    response.writeHead(200, {
      "content-type": "image/png",
      "x-request-id": query.request_id,
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
    if (request.method === "POST") upscale(request, response).catch(() => response.destroy());
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
