/** An RFC 9457 problem document of the server. */
export interface Problem {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  /** Such as "LIMIT_EXCEEDED". */
  reason?: string;
  /** Canonical gRPC code, such as "INVALID_ARGUMENT". */
  code?: string;
  request_id?: string;
  metadata?: Record<string, string>;
  retry_after_seconds?: number;
}

/** Base of all errors that this module throws, but for the abort of a caller's own signal. */
export class UpscaledError extends Error {
  constructor(problem?: Problem, options?: { cause?: unknown });
  readonly problem: Problem;
  /** The server's reason; "" when the error is not the server's. */
  readonly reason: string;
  /** HTTP status; 0 when there was no answer. */
  readonly status: number;
  readonly metadata: Record<string, string>;
  /** Name of the limit that was passed. */
  readonly limit?: string;
  readonly value?: string;
  readonly maximum?: string;
  readonly requestId?: string;
  /** Seconds. */
  readonly retryAfter?: number;
  /** Whether the same call may succeed later. */
  get retryable(): boolean;
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
/** The deadline passed, or too little was sent or read for too long. */
export class TimedOutError extends UpscaledError {}
/** The server failed: a device, or something that it does not expect. */
export class ServerError extends UpscaledError {}
/** The server is full or about to end: come back after `retryAfter` seconds. */
export class BusyError extends UpscaledError {}
/** No connection, or one that broke off in the middle of an answer. */
export class ConnectionError extends UpscaledError {}

/** The error that a problem document stands for. */
export function errorOf(problem: Problem): UpscaledError;
/** The query that options make, without those that are the client's own. */
export function queryOf(options: Record<string, unknown>): string;
/** A random UUID. */
export function newRequestId(): string;

/**
 * Iterables are streamed while they are read, in Node; a browser needs HTTP/2 for that. What a URL
 * names is fetched by the server, from hosts that its `--fetch-allow` lists.
 */
export type ImageSource =
  | URL
  | Blob
  | ArrayBuffer
  | ArrayBufferView
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>
  | Iterable<Uint8Array>;

/**
 * The caller's `traceparent` (W3C Trace Context), or what tells it, call by call. With OpenTelemetry:
 * () => { const fields = {}; propagation.inject(context.active(), fields); return fields.traceparent; }
 * A tracer that wraps `fetch` adds the field itself: then pass none.
 */
export type Traceparent = string | (() => string | undefined);

export interface CallOptions {
  /** Aborting it stops the work on the server. */
  signal?: AbortSignal;
  /**
   * Further tries when the server is full; default: the client's. A refusal that says when to come
   * back costs the time until then instead of a try, 2 minutes in all. A stream is never sent again.
   */
  retries?: number;
  /** The trace that the call belongs to; default: the client's. */
  traceparent?: Traceparent;
  /** "background": only while no interactive work is queued. Jobs refuse it: their worker's holds. */
  priority?: "interactive" | "background";
}

/** Absent options are the server's or the model's defaults. */
export interface UpscaleOptions extends CallOptions {
  model?: string;
  /** -1 none, 0 to 3, or by the compression of a JPEG. */
  noiseLevel?: number | "auto";
  /** Above 0 to 16. */
  scale?: number;
  widthPx?: number;
  heightPx?: number;
  shortSidePx?: number;
  longSidePx?: number;
  /** How the image fits into a width and a height; default: "contain". */
  fit?: "contain" | "cover" | "stretch";
  /** Most pixels of the result, which is made smaller in proportion. */
  maxPixels?: number;
  noEnlarge?: boolean;
  tta?: boolean;
  /** For a texture that is laid side by side: its borders go on at the opposite ones. */
  seamless?: boolean;
  /** The last three only where the server writes them, see its information. */
  format?: "png" | "jpeg" | "webp" | "avif" | "jxl" | "tiff";
  /** The quality of JPEG, WebP, AVIF and JPEG XL, 1 to 100. */
  quality?: number;
  pngCompression?: number;
  keep16Bit?: boolean;
  /** Bits a sample; default: as many as the source has. */
  depth?: "auto" | 8 | 16;
  alpha?: "network" | "resample";
  /** The colours of fully transparent pixels. */
  alphaColour?: "bleed" | "keep";
  keepColours?: boolean;
  metadata?: "keep" | "strip" | "strip-location" | "icc";
  onDamage?: "fail" | "fill";
  /** All frames of an animation, the first, or one counted from 1; default: "all". */
  frame?: "all" | "first" | number;
  precision?: "exact" | "fast";
  tilePx?: number;
  sigmaSpace?: number;
  sigmaRange?: number;
  requestId?: string;
  /** Answer the source unchanged instead of an error, with a header that says so. */
  onError?: "original";
  /** File name of the result, with which the server has browsers save it. */
  download?: string;
  /**
   * Is told of each event of the request; of one that is tried again, not that it has failed. A
   * call that is refused throws, and its "failed" may not come any more.
   */
  onProgress?: (event: ProgressEvent) => void;
}

/** Beside those of upscale(), of which `requestId`, `onError` and `download` are not for jobs. */
export interface JobOptions extends UpscaleOptions {
  /** A URL that is told of the job's end. */
  webhook?: string;
  /** Your own name for the job. */
  reference?: string;
}

export type JobState = "waiting" | "running" | "done" | "failed" | "cancelled";

export interface JobFacts {
  id: string;
  state: JobState;
  batch: string | null;
  reference: string | null;
  progress: { tiles_done: number; tiles: number } | null;
  size: { width_px: number; height_px: number } | null;
  /** Sentences about all that the result has dropped or changed. */
  warnings: string[];
  /** The fate of the job's webhook; null without one. */
  webhook: { state: "waiting" | "told" | "failed"; tries: number; error: string | null } | null;
  error: { code: string; reason: string; message: string } | null;
}

/**
 * An image that is upscaled after its call has ended, as the server last told. The server keeps it
 * when this program ends: UpscaledClient.job(id) finds it again.
 */
export class Job implements JobFacts {
  private constructor();
  readonly id: string;
  readonly state: JobState;
  readonly batch: string | null;
  readonly reference: string | null;
  readonly progress: { tiles_done: number; tiles: number } | null;
  readonly size: { width_px: number; height_px: number } | null;
  readonly warnings: string[];
  readonly webhook: JobFacts["webhook"];
  readonly error: { code: string; reason: string; message: string } | null;
  /** Whether its state is for good. */
  get ended(): boolean;
  /** Asks the server; the promise is kept with this job. */
  refresh(options?: { signal?: AbortSignal }): Promise<this>;
  /** The job's events until it has ended: "state", with its fields, and "tiles". */
  events(options?: {
    signal?: AbortSignal;
  }): AsyncGenerator<{ event: "state" | "tiles" } & Partial<JobFacts> & Record<string, unknown>>;
  /**
   * Waits until the job has ended; the promise is kept with this job. Aborting ends only the wait. A
   * full server is asked again, until it has refused for two minutes on end.
   */
  wait(options?: { signal?: AbortSignal }): Promise<this>;
  /**
   * Waits for the job, and gives its image as upscale() does. Throws the error that it failed with,
   * and an UpscaledError of the reason "CANCELLED" if it was cancelled.
   */
  result(options?: { signal?: AbortSignal }): Promise<UpscaleResult>;
  /** Cancels the job, or removes the result of one that has ended. */
  cancel(options?: { signal?: AbortSignal }): Promise<void>;
}

export interface ProgressEvent extends Problem {
  event: "queued" | "upload" | "started" | "tiles" | "done" | "failed";
  tiles_done?: number;
  tiles?: number;
  /** In "upload": bytes that the server has read, and how many there are (0: unknown). */
  bytes?: number;
  total?: number;
  /** In "done": how it went, as UpscaleSummary of the contract has it. */
  summary?: Record<string, unknown>;
}

export interface Verdict {
  source: { width_px: number; height_px: number; format: string };
  result: { width_px: number; height_px: number; format: string };
  model: string;
  tiles: number;
  cost_multiply_adds: number;
  memory_bytes: number;
  estimated_seconds: number;
  warnings?: string[];
  accepted: boolean;
}

/** The answer to upscale(): what the server said of the result, and its bytes as they are computed. */
export class UpscaleResult implements AsyncIterable<Uint8Array> {
  private constructor();
  readonly requestId: string;
  readonly model: string;
  readonly width: number;
  readonly height: number;
  readonly tiles: number;
  readonly contentType: string;
  readonly etag: string;
  readonly fileName: string;
  /** The level of noise that is removed, chosen by the server for "auto"; -1: none. */
  readonly noiseLevel: number;
  /** More than 1 for an animation. */
  readonly frames: number;
  /**
   * Sentences about all that is dropped or changed, as far as the image's header tells. The "done"
   * event's summary has those that only the pixels have shown.
   */
  readonly warnings: string[];
  readonly headers: Headers;
  /** The encoded image; errors when it breaks off, so that half of one is never taken for a whole. */
  readonly body: ReadableStream<Uint8Array>;
  [Symbol.asyncIterator](): AsyncIterator<Uint8Array>;
  /** The whole result. */
  blob(): Promise<Blob>;
  /** The whole result. */
  bytes(): Promise<Uint8Array>;
}

export interface Model {
  name: string;
  family: string;
  style: string;
  description: string;
  licence: string;
  version: number;
  scales: number[];
  /** -1 (none) included. */
  noise_levels: number[];
  /** The pairs that one pass computes: not every scale has every level. */
  variants: { scale: number; noise_level: number }[];
  /** "exact", "fast". */
  precisions: string[];
  halo_px: number;
  is_default: boolean;
  default_precision: string;
  /** Other names of it. */
  aliases: string[];
  multiply_adds_per_pixel: number;
  weight_bytes: number;
  /** As measured on this server; 0: not yet. */
  seconds_per_megapixel: number;
  /** Empty: its file holds the layers themselves. */
  architecture: string;
  /** 1: of luma. */
  input_channels: number;
  /** Once it is loaded. */
  memory_bytes: number;
}

export interface Info {
  version: string;
  devices: {
    name: string;
    description: string;
    streams: number;
    /** "up", "failed". */
    state: string;
    failures: number;
    error: string;
  }[];
  limits: Record<string, number>;
  input_formats: string[];
  output_formats: string[];
}

/** A server. Holds no connection and may be used for any number of calls at a time. */
export class UpscaledClient {
  /** `server`: its base URL, such as "http://localhost:8000"; on a page of the server itself: ".". */
  constructor(
    server: string,
    options?: {
      apiKey?: string;
      retries?: number;
      traceparent?: Traceparent;
      fetch?: typeof fetch;
    },
  );
  /** Upscales `image`. The promise is kept when the first bytes come; the rest comes by the result's body. */
  upscale(image: ImageSource, options?: UpscaleOptions): Promise<UpscaleResult>;
  /** Queues `image` as a job, which goes on when this program has ended. */
  submit(image: ImageSource, options?: JobOptions): Promise<Job>;
  /**
   * Queues many images in one call: all of them or none, as jobs in their order. Either all are
   * URLs, which workers fetch, or all are Blobs or bytes.
   */
  submitBatch(
    images: Iterable<URL | Blob | ArrayBuffer | ArrayBufferView>,
    options?: JobOptions,
  ): Promise<Job[]>;
  /** A job that was submitted before. */
  job(id: string, options?: { signal?: AbortSignal }): Promise<Job>;
  /** Your jobs, the latest first. Without a key, name a batch. */
  jobs(options?: {
    state?: JobState;
    batch?: string;
    reference?: string;
    signal?: AbortSignal;
  }): AsyncGenerator<Job>;
  /** The plan of upscale(), from the image's header alone; throws the error that it would get. */
  dryRun(image: ImageSource, options?: UpscaleOptions): Promise<Verdict>;
  models(options?: CallOptions): Promise<Model[]>;
  model(name: string, options?: CallOptions): Promise<Model>;
  /** Version, devices, limits and formats. */
  info(options?: CallOptions): Promise<Info>;
  /** The events of a request until it is done or has failed. May be called before the request. */
  progress(
    requestId: string,
    options?: { signal?: AbortSignal; traceparent?: Traceparent },
  ): AsyncGenerator<ProgressEvent>;
}
