// A client of upscaled's HTTP service, for Node 18 and later and for browsers. No dependencies.
// upscaled.d.ts describes what is exported.

/** Base of all errors that this module throws, but for the abort of a caller's own signal. */
export class UpscaledError extends Error {
  /** `problem`: the server's application/problem+json, or as much of one as is known. */
  constructor(problem = {}, options = {}) {
    super(problem.detail || problem.title || "the call failed", options);
    this.name = new.target.name;
    this.problem = problem;
    this.reason = problem.reason ?? "";
    this.status = problem.status ?? 0;
    this.metadata = problem.metadata ?? {};
    this.limit = this.metadata.limit;
    this.value = this.metadata.value;
    this.maximum = this.metadata.maximum;
    this.requestId = problem.request_id;
    this.retryAfter = problem.retry_after_seconds;
  }

  /** Whether the same call may succeed later. */
  get retryable() {
    return false;
  }
}

/** An option is out of range, contradictory or unknown. */
export class InvalidOptionError extends UpscaledError {}
/** The bytes are no image that the server can read, or of a kind that it does not support. */
export class InvalidImageError extends UpscaledError {}
/** The image, its result or its file passes a limit: `limit`, `value` and `maximum` say which. */
export class LimitExceededError extends UpscaledError {}
/** No such model, or not at this scale or noise level. */
export class UnknownModelError extends UpscaledError {}
/** The server wants a key, or another one. */
export class UnauthorizedError extends UpscaledError {}
/** The deadline passed or cannot be met, or too little was sent or read for too long. */
export class TimedOutError extends UpscaledError {}
/** The server failed: a device, or something that it does not expect. */
export class ServerError extends UpscaledError {}
/** The server is full or about to end: come back after `retryAfter` seconds. */
export class BusyError extends UpscaledError {
  get retryable() {
    return true;
  }
}
/** No connection, or one that broke off in the middle of an answer. */
export class ConnectionError extends UpscaledError {}

const CLASS_OF_REASON = {
  INVALID_OPTION: InvalidOptionError,
  INVALID_IMAGE: InvalidImageError,
  UNSUPPORTED: InvalidImageError,
  LIMIT_EXCEEDED: LimitExceededError,
  UNKNOWN_MODEL: UnknownModelError,
  SOURCE_REFUSED: InvalidOptionError,
  UNAUTHENTICATED: UnauthorizedError,
  PERMISSION_DENIED: UnauthorizedError,
  OVERLOADED: BusyError,
  DRAINING: BusyError,
  DEADLINE: TimedOutError,
  DEADLINE_INFEASIBLE: TimedOutError, // final: no wait makes a deadline longer
  STALLED: TimedOutError,
  CANCELLED: UpscaledError,
  SOURCE_FAILED: ServerError,
  DEVICE_FAILURE: ServerError,
  RELOAD_FAILED: ServerError,
  INTERNAL: ServerError,
};

function classOfStatus(status) {
  if (status === 401 || status === 403) return UnauthorizedError;
  if (status === 413) return LimitExceededError;
  if (status === 415 || status === 422) return InvalidImageError;
  if (status === 429 || status === 503) return BusyError;
  if (status === 408 || status === 504) return TimedOutError;
  return status >= 500 ? ServerError : UpscaledError;
}

/** The error that a problem document stands for. */
export function errorOf(problem) {
  const Class = CLASS_OF_REASON[problem.reason] ?? classOfStatus(problem.status ?? 0);
  return new Class(problem);
}

// All waits of a call together, in seconds.
const MAX_TOTAL_WAIT = 120;

// How long to wait before another try, in seconds: until the moment that the server asks for, and
// up to a tenth longer; otherwise twice as long from try to try, half of it random.
function waitBefore(tries, asked) {
  if (asked > 0) return Math.max(asked, 0.2) * (1 + Math.random() / 10);
  return 0.25 * 2 ** tries * (0.5 + Math.random() / 2);
}

async function errorOfResponse(response) {
  let problem = {};
  try {
    const text = await response.text();
    if (/\bjson\b/.test(response.headers.get("content-type") ?? "")) problem = JSON.parse(text);
    else problem = { detail: text.trim().slice(0, 300) };
  } catch {
    // A proxy's answer, or half of one: the status says what there is to say.
  }
  problem.status ??= response.status;
  problem.title ??= response.statusText;
  problem.request_id ??= response.headers.get("x-request-id") ?? undefined;
  const seconds = Number.parseFloat(response.headers.get("retry-after") ?? "");
  if (Number.isFinite(seconds)) problem.retry_after_seconds ??= seconds;
  return errorOf(problem);
}

/** A random UUID; also where crypto.randomUUID is missing, as on pages without TLS. */
export function newRequestId() {
  if (globalThis.crypto?.randomUUID) return globalThis.crypto.randomUUID();
  const bytes = globalThis.crypto?.getRandomValues
    ? globalThis.crypto.getRandomValues(new Uint8Array(16))
    : Uint8Array.from({ length: 16 }, () => 256 * Math.random()); // Node 18 has no global crypto
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** Events of a text/event-stream as {event, data}; comments are left out. */
async function* parseEvents(body, signal) {
  const decoder = new TextDecoder();
  let rest = "";
  let event = "message";
  let data = [];
  for await (const chunk of chunksOf(body, signal)) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (data.length) yield { event, data: data.join("\n") };
        event = "message";
        data = [];
      } else if (line.startsWith("event:")) {
        event = line.slice(6).trim();
      } else if (line.startsWith("data:")) {
        data.push(line.slice(5).replace(/^ /, ""));
      }
    }
  }
}

/**
 * Cancels what `reader` reads when `signal`, if any, is aborted: fetch() of Node 18 may lose the
 * signal once the header is there. Gives a function that ends this.
 */
function cancelOnAbort(reader, signal) {
  const stop = () => void reader.cancel(signal.reason).catch(() => {});
  if (signal?.aborted) stop();
  else signal?.addEventListener("abort", stop, { once: true });
  return () => signal?.removeEventListener("abort", stop);
}

/**
 * The chunks of a ReadableStream; not every browser lets one iterate over it. Ending early cancels
 * it, and so does `signal`.
 */
async function* chunksOf(body, signal) {
  const reader = body.getReader();
  const letGo = cancelOnAbort(reader, signal);
  let whole = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      signal?.throwIfAborted(); // cancelling looks like the end
      if (done) break;
      yield value;
    }
    whole = true;
  } finally {
    letGo();
    if (!whole) await reader.cancel().catch(() => {});
  }
}

/**
 * The answer to upscale(): what the server said of the result, and its bytes as they are computed.
 */
export class UpscaleResult {
  #taken = false;

  /** `watch`: tells why a body broke off, and is told when it has ended. Its `signal` may be undefined. */
  constructor(response, watch) {
    const { headers } = response;
    const { signal } = watch;
    this.requestId = headers.get("x-request-id") ?? "";
    this.model = headers.get("upscale-model") ?? "";
    this.width = Number(headers.get("upscale-width")) || 0;
    this.height = Number(headers.get("upscale-height")) || 0;
    this.tiles = Number(headers.get("upscale-tiles")) || 0;
    this.contentType = (headers.get("content-type") ?? "").split(";")[0];
    this.etag = headers.get("etag") ?? "";
    this.fileName = /filename="([^"]*)"/.exec(headers.get("content-disposition") ?? "")?.[1] ?? "";
    this.warnings = quotedTexts(headers.get("upscale-warning") ?? "");
    const header = JSON.parse(headers.get("upscale-header") ?? "{}");
    this.noiseLevel = header.noise_level ?? -1;
    this.frames = header.frames ?? 1;
    this.headers = headers;
    const reader = response.body.getReader();
    const letGo = cancelOnAbort(reader, signal);
    const taken = () => (this.#taken = true);
    const end = () => {
      letGo();
      watch.bodyEnded();
    };
    /**
     * The encoded image; errors when it breaks off, so that half of one is never taken for a whole.
     */
    this.body = new ReadableStream(
      {
        async pull(controller) {
          taken();
          try {
            const { done, value } = await reader.read();
            signal?.throwIfAborted(); // cancelling looks like the end
            if (!done) return controller.enqueue(value);
            controller.close();
          } catch (error) {
            controller.error(await watch.whyBroken(error));
          }
          end();
        },
        cancel(reason) {
          taken();
          end();
          return reader.cancel(reason).catch(() => {});
        },
      },
      { highWaterMark: 0 },
    );
  }

  [Symbol.asyncIterator]() {
    if (this.#taken) throw new TypeError("the result was read before: keep what bytes() returns");
    return chunksOf(this.body);
  }

  /** The whole result. */
  async blob() {
    const chunks = [];
    for await (const chunk of this) chunks.push(chunk);
    return new Blob(chunks, { type: this.contentType });
  }

  /** The whole result. */
  async bytes() {
    return new Uint8Array(await (await this.blob()).arrayBuffer());
  }
}

const ENDED = new Set(["done", "failed", "cancelled"]);
const FIRST_POLL = 0.2; // seconds; grows by half up to LAST_POLL
const LAST_POLL = 2;

/**
 * An image that is upscaled after its call has ended, as the server last told. The server keeps it
 * when this program ends: UpscaledClient.job(id) finds it again.
 */
export class Job {
  #send;

  /** `send`: a client's way to its server. */
  constructor(send, facts) {
    this.#send = send;
    this.#set(facts);
  }

  #set(facts) {
    this.id = facts.id;
    this.state = facts.state;
    this.batch = facts.batch ?? null;
    this.reference = facts.reference ?? null;
    this.progress = facts.progress ?? null;
    this.size = facts.size ?? null;
    this.warnings = facts.warnings ?? [];
    this.webhook = facts.webhook ?? null;
    this.error = facts.error ?? null;
  }

  /** Whether its state is for good. */
  get ended() {
    return ENDED.has(this.state);
  }

  /** Asks the server; the promise is kept with this job. */
  async refresh({ signal } = {}) {
    this.#set(await (await this.#send(`/v1/jobs/${this.id}`, { signal })).json());
    return this;
  }

  /** The job's events, {event, ...data}, until it has ended: "state", with its fields, and "tiles". */
  async *events({ signal } = {}) {
    const call = { signal, accept: "text/event-stream" };
    const response = await this.#send(`/v1/jobs/${this.id}/events`, call);
    for await (const { event, data } of parseEvents(response.body, signal)) {
      const facts = JSON.parse(data);
      if (event === "failed") throw errorOf(facts);
      if (event === "state") this.#set(facts);
      yield { event, ...facts };
    }
  }

  /**
   * Waits until the job has ended; the promise is kept with this job. Aborting ends only the wait. A
   * full server is asked again, until it has refused for two minutes on end.
   */
  async wait({ signal } = {}) {
    let refusedSince = null; // milliseconds
    for (let pause = FIRST_POLL; ; pause = Math.min(1.5 * pause, LAST_POLL)) {
      const asked = performance.now();
      let wait = pause;
      try {
        await this.refresh({ signal });
        if (this.ended) return this;
        refusedSince = null;
      } catch (error) {
        refusedSince ??= asked;
        const refused = (performance.now() - refusedSince) / 1000;
        if (!error.retryable || refused >= MAX_TOTAL_WAIT) throw error;
        wait = Math.max(pause, waitBefore(0, error.retryAfter));
      }
      await sleep(1000 * wait, signal);
    }
  }

  /**
   * Waits for the job, and gives its image as upscale() does. Throws the error that it failed with,
   * and an UpscaledError of the reason "CANCELLED" if it was cancelled.
   */
  async result({ signal } = {}) {
    await this.wait({ signal });
    if (this.state === "cancelled")
      throw new UpscaledError({ detail: "the job was cancelled", reason: "CANCELLED" });
    if (this.error) throw errorOf({ detail: this.error.message, reason: this.error.reason });
    const response = await this.#send(`/v1/jobs/${this.id}/result`, { signal });
    const result = new UpscaleResult(response, {
      signal,
      whyBroken: async (error) =>
        signal?.aborted
          ? signal.reason
          : new ConnectionError({ detail: `the result broke off: ${error.message}` }),
      bodyEnded: () => {},
    });
    if (this.size) [result.width, result.height] = [this.size.width_px, this.size.height_px];
    return result;
  }

  /** Cancels the job, or removes the result of one that has ended. */
  async cancel({ signal } = {}) {
    await this.#send(`/v1/jobs/${this.id}`, { signal, method: "DELETE" });
  }
}

const OWN_OPTIONS = new Set(["signal", "onProgress", "retries", "traceparent", "priority"]);

const priorityOf = ({ priority }) => (priority ? { "upscale-priority": priority } : {});

/** The texts of a list of strings (RFC 8941), which hold no quotation marks. */
function quotedTexts(list) {
  return Array.from(list.matchAll(/"([^"]*)"/g), (match) => match[1]);
}

/** The query that options make, without those that are the client's own. */
export function queryOf(options) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options)) {
    if (OWN_OPTIONS.has(name) || value === undefined || value === null || value === "") continue;
    query.set(
      name.replace(/[A-Z]|\d+/g, (part) => "_" + part.toLowerCase()),
      String(value),
    );
  }
  return query.toString();
}

const isBytes = (image) =>
  ArrayBuffer.isView(image) ||
  image instanceof ArrayBuffer ||
  (typeof Blob !== "undefined" && image instanceof Blob);

/** Throws a TypeError for what is no image, such as the first file of an empty input. */
function checkImage(image) {
  if (typeof image === "string" || image instanceof URL || isBytes(image)) return;
  if (image instanceof ReadableStream) return;
  if (image?.[Symbol.asyncIterator] || image?.[Symbol.iterator]) return;
  throw new TypeError(
    "an image is a Blob, bytes, a URL, a stream or an iterable of bytes, not " +
      (image === null ? "null" : typeof image),
  );
}

/** The name of `image` in a query: its URL, if it is one. */
function sourceOf(image) {
  checkImage(image);
  return image instanceof URL ? { url: image.href } : {};
}

function isRepeatable(image) {
  return typeof image === "string" || image instanceof URL || isBytes(image);
}

function bodyOf(image) {
  if (isRepeatable(image) || image instanceof ReadableStream) return image;
  const iterator = image[Symbol.asyncIterator]?.() ?? image[Symbol.iterator]();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => iterator.return?.(),
  });
}

/** A server. Holds no connection and may be used for any number of calls at a time. */
export class UpscaledClient {
  #base;
  #apiKey;
  #retries;
  #traceparent;
  #fetch;

  /**
   * `server`: its base URL, such as "http://localhost:8000"; on a page of the server itself: ".".
   */
  constructor(server, { apiKey, retries = 0, traceparent, fetch = globalThis.fetch } = {}) {
    if (apiKey && !/^[!-~]+$/.test(apiKey))
      throw new TypeError("apiKey has a space, a line end or another character of no key");
    this.#base = String(server).replace(/\/+$/, "");
    this.#apiKey = apiKey;
    this.#retries = retries;
    this.#traceparent = traceparent;
    this.#fetch = (...args) => fetch(...args);
  }

  /**
   * Upscales `image`, which the server fetches itself if it is a URL. The promise is kept when the
   * first bytes come; the rest comes by the result's body.
   */
  async upscale(image, options = {}) {
    const { signal, onProgress, retries = this.#retries, traceparent } = options;
    const requestId = options.requestId ?? newRequestId();
    const query = queryOf({ ...options, ...sourceOf(image), requestId });
    let watch; // of the last try
    const onTry = () => {
      watch?.stop();
      watch = onProgress && this.#watch(requestId, onProgress, signal);
    };
    try {
      const call = { image, signal, retries, traceparent, onTry, headers: priorityOf(options) };
      const response = await this.#send(`/v1/upscale?${query}`, call);
      watch?.keep();
      return new UpscaleResult(response, {
        signal,
        whyBroken: async (error) => {
          if (signal?.aborted) return signal.reason;
          const detail = `the result broke off: ${error.message}`;
          return (await watch?.failure()) ?? new ConnectionError({ detail }, { cause: error });
        },
        bodyEnded: () => watch?.failure(),
      });
    } catch (error) {
      watch?.keep();
      watch?.stop();
      throw error;
    }
  }

  /**
   * Queues `image` as a job, which goes on when this program has ended. Beside the options of
   * upscale(): `webhook`, a URL that is told of the end, and `reference`, your own name for it.
   */
  async submit(image, options = {}) {
    const query = queryOf({ ...options, ...sourceOf(image) });
    const { signal, retries = this.#retries, traceparent } = options;
    const headers = { prefer: "respond-async", ...priorityOf(options) };
    const call = { image, signal, retries, traceparent, headers };
    const response = await this.#send(`/v1/upscale?${query}`, call);
    if (response.status !== 202) {
      await response.body?.cancel();
      throw new UpscaledError({ detail: "the server keeps no jobs (job-queue)" });
    }
    return this.#jobOf(await response.json());
  }

  /**
   * Queues many images in one call: all of them or none, as jobs in their order. Either all are
   * URLs, which workers fetch, or all are Blobs or bytes.
   */
  async submitBatch(images, options = {}) {
    const { signal, retries = this.#retries, traceparent } = options;
    const call = { signal, retries, traceparent, method: "POST", headers: priorityOf(options) };
    const query = queryOf(options);
    if (typeof images === "string" || isBytes(images))
      throw new TypeError("submitBatch() takes a list of images");
    images = [...images];
    if (images.every((image) => image instanceof URL)) {
      call.headers["content-type"] = "application/json";
      call.body = JSON.stringify({ jobs: images.map((url) => ({ url: url.href })) });
    } else {
      call.body = new FormData();
      for (const image of images) {
        if (!isBytes(image))
          throw new TypeError("a batch is of URLs alone, or of Blobs and bytes alone");
        const blob = image instanceof Blob ? image : new Blob([image]);
        call.body.append("image", blob, image.name ?? "image");
      }
    }
    const { jobs } = await (await this.#send(`/v1/jobs?${query}`, call)).json();
    return jobs.map((facts) => this.#jobOf(facts));
  }

  /** A job that was submitted before. */
  async job(id, options) {
    return this.#jobOf({ id: encodeURIComponent(id) }).refresh(options);
  }

  /** Your jobs, the latest first: of a `state`, `batch` or `reference`. Without a key, name a batch. */
  async *jobs({ state, batch, reference, signal } = {}) {
    let path = `/v1/jobs?${queryOf({ state, batch, reference })}`;
    while (path) {
      const page = await this.#get(path, { signal });
      for (const facts of page.jobs) yield this.#jobOf(facts);
      path = page.next;
    }
  }

  #jobOf(facts) {
    return new Job((path, call) => this.#send(path, { retries: this.#retries, ...call }), facts);
  }

  /** The plan of upscale(), from the image's header alone; throws the error that it would get. */
  async dryRun(image, options = {}) {
    const query = queryOf({ ...options, ...sourceOf(image), dryRun: 1 });
    const { signal, retries = this.#retries, traceparent } = options;
    const call = { image, signal, retries, traceparent, headers: priorityOf(options) };
    return (await this.#send(`/v1/upscale?${query}`, call)).json();
  }

  /** The models on offer. */
  async models(options) {
    return (await this.#get("/v1/models", options)).models ?? [];
  }

  /** One model. */
  async model(name, options) {
    const answer = await this.#get(`/v1/models/${encodeURIComponent(name)}`, options);
    return answer.model ?? answer;
  }

  /** Version, devices, limits and formats. */
  async info(options) {
    return this.#get("/v1/info", options);
  }

  /**
   * The events of a request, {event, ...data}, until it is done or has failed. May be called before
   * the request.
   */
  async *progress(requestId, { signal, traceparent } = {}) {
    const path = `/v1/progress/${encodeURIComponent(requestId)}`;
    const call = { signal, retries: 0, traceparent, accept: "text/event-stream" };
    const response = await this.#send(path, call);
    for await (const { event, data } of parseEvents(response.body, signal))
      yield { event, ...JSON.parse(data) };
  }

  async #get(path, { signal, retries = this.#retries, traceparent } = {}) {
    return (await this.#send(path, { signal, retries, traceparent })).json();
  }

  /**
   * Passes the events of one try to `onProgress`: how it failed when it is known to be the last
   * one. Losing them never fails the request.
   */
  #watch(requestId, onProgress, signal) {
    const stopper = new AbortController();
    let settle;
    const kept = new Promise((resolve) => (settle = resolve));
    const stop = () => {
      settle(false);
      stopper.abort();
    };
    signal?.addEventListener("abort", stop, { once: true });
    let failure;
    const ended = (async () => {
      try {
        for await (const event of this.progress(requestId, { signal: stopper.signal })) {
          if (event.event === "failed") {
            failure = errorOf(event);
            if (!(await kept)) return;
          }
          onProgress(event);
        }
      } catch {
        // A server that does not tell, or a proxy that does not let it.
      } finally {
        signal?.removeEventListener("abort", stop);
      }
    })();
    return {
      stop,
      /** No other try will follow. */
      keep: () => settle(true),
      /** Waits for the last event, though not for long; undefined: none told of a failure. */
      async failure() {
        await Promise.race([ended, sleep(1000, stopper.signal).catch(() => {})]);
        stop();
        return failure;
      },
    };
  }

  /** The trace that a call belongs to; all its tries are of one. */
  #traceOf(traceparent = this.#traceparent) {
    return typeof traceparent === "function" ? traceparent() : traceparent;
  }

  /** `onTry` is called before each try. */
  async #send(path, { image, signal, retries, traceparent, onTry, ...request }) {
    const trace = this.#traceOf(traceparent);
    const again = image === undefined || isRepeatable(image);
    // A refusal that says when to come back costs the time until then, and no try.
    for (let tries = 0, waited = 0; ; ) {
      onTry?.();
      try {
        return await this.#sendOnce(path, { image, signal, trace, ...request });
      } catch (error) {
        if (!(error instanceof UpscaledError) || !error.retryable || !again) throw error;
        const hasMoment = error.retryAfter > 0;
        if (hasMoment ? retries <= 0 : tries >= retries) throw error;
        const wait = waitBefore(tries, error.retryAfter);
        waited += wait;
        if (waited > MAX_TOTAL_WAIT) throw error;
        await sleep(1000 * wait, signal);
        if (!hasMoment) ++tries;
      }
    }
  }

  async #sendOnce(path, { image, signal, trace, accept, ...request }) {
    const headers = { ...request.headers };
    if (trace) headers.traceparent = trace;
    if (this.#apiKey) headers.authorization = `Bearer ${this.#apiKey}`;
    if (accept) headers.accept = accept;
    const init = { headers, signal, method: request.method, body: request.body };
    init.redirect = "error"; // a POST would become a GET without its image
    if (image !== undefined) init.method = "POST";
    if (image !== undefined && !(image instanceof URL)) {
      init.body = bodyOf(image);
      if (init.body instanceof ReadableStream) init.duplex = "half";
      if (!image.type) headers["content-type"] = "application/octet-stream";
    }
    let response;
    try {
      response = await this.#fetch(this.#base + path, init);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      const why = error.cause?.message ?? error.message;
      throw new ConnectionError({ detail: `cannot reach the server: ${why}` }, { cause: error });
    }
    if (!response.ok) throw await errorOfResponse(response);
    return response;
  }
}
