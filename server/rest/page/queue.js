// The images and what becomes of them; knows no elements.

import { UpscaledError, newRequestId } from "./upscaled.js";
import { Painter } from "./painter.js";

const AT_A_TIME = 2; // each takes two of the six connections that browsers open to a server
const HEADER_BYTES = 1 << 20; // of a file, that a verdict is asked for with
const RETRIES = 3;

/** One image: "ready", "waiting", "sending", "computing", "done", "failed" or "cancelled". */
export class Job {
  state = "ready";
  /** Size of the source in pixels, when known. */
  source;
  /** The server's verdict for the options of now. */
  verdict;
  /** Why the verdict is no, or why it failed. */
  error;
  /** Bytes that have reached the server. */
  sent = 0;
  tilesDone = 0;
  tiles = 0;
  received = 0;
  /** Model that computes it, as the server said. */
  model = "";
  /** Level of noise that is removed, as the server said; -1: none. */
  noiseLevel = -1;
  /** Frames of the result; more than 1 of an animation. */
  frames = 1;
  /** Sentences of the server about all that is dropped or changed. */
  warnings = [];
  /** The options of its last start that was not in vain. */
  options;
  /** Paints what has come, while "computing". */
  painter;
  /** {blob, url, width, height, model, seconds} of the last run that was done. */
  result;
  /** Whether loading the page again gives the result back: see kept_results.js. */
  kept = false;
  /** Names its record there, whichever run the result is of. */
  keptId = newRequestId();
  #abort;
  /** All that tells of `result`, while another run may replace it. */
  #earlier;

  constructor(file) {
    this.file = file;
    this.name = file.name || "pasted.png";
    this.url = URL.createObjectURL(file);
  }

  /** A job that was done before the page was loaded: see kept_results.js. */
  static kept({ id, about, file, blob }) {
    const job = new Job(file);
    const { width, height, seconds, model, noiseLevel, frames, options, warnings } = about;
    const url = URL.createObjectURL(blob);
    Object.assign(job, { state: "done", kept: true, keptId: id, model, noiseLevel, frames, options, warnings });
    job.result = { blob, url, width, height, model, seconds };
    return job;
  }

  get running() {
    return this.state === "sending" || this.state === "computing";
  }

  /** Lets it wait for its turn. */
  wait(options) {
    if (this.state === "done") {
      const { state, options: earlier, model, noiseLevel, frames, warnings } = this;
      this.#earlier = { state, options: earlier, model, noiseLevel, frames, warnings };
    }
    Object.assign(this, { state: "waiting", options, error: undefined });
  }

  /**
   * Runs to its end; never throws. Returns how it ended: "done", "failed" or "cancelled". `changed` is
   * called whenever there is something to show. The earlier result stays until another is there.
   */
  async run(client, changed) {
    const begin = performance.now();
    Object.assign(this, {
      state: "sending",
      sent: 0,
      tilesDone: 0,
      tiles: 0,
      received: 0,
      warnings: [],
    });
    this.#abort = new AbortController();
    changed();
    let end = "done";
    try {
      const { blob, width, height, model } = await this.#receive(client, changed);
      const seconds = (performance.now() - begin) / 1000;
      this.#forgetResult();
      this.result = { blob, url: URL.createObjectURL(blob), width, height, model, seconds };
      Object.assign(this, { state: "done", kept: false });
    } catch (error) {
      end = this.#abort.signal.aborted ? "cancelled" : "failed";
      this.state = end;
      this.#restoreEarlier();
      this.error = end === "failed" ? error : undefined;
    }
    this.painter = undefined;
    changed();
    return end;
  }

  async #receive(client, changed) {
    const { signal } = this.#abort;
    const onProgress = (event) => {
      // Those of the header come with the answer; these only the pixels have shown.
      if (event.event === "done") this.warnings.push(...(event.summary?.warnings ?? []));
      if (event.event === "upload") this.sent = event.bytes;
      if (event.tiles) [this.tilesDone, this.tiles] = [event.tiles_done, event.tiles];
      if (event.event === "started" || event.event === "tiles")
        this.state = this.running ? "computing" : this.state;
      changed();
    };
    const result = await client.upscale(this.file, {
      ...this.options,
      signal,
      retries: RETRIES,
      onProgress,
    });
    this.state = "computing";
    this.sent = this.file.size;
    this.model = result.model;
    this.noiseLevel = result.noiseLevel;
    this.frames = result.frames;
    this.warnings.unshift(...result.warnings);
    this.painter = new Painter(result.contentType);
    const chunks = [];
    try {
      for await (const chunk of result) {
        chunks.push(chunk);
        this.received += chunk.length;
        this.painter.write(chunk);
        changed();
      }
    } finally {
      this.painter.close();
    }
    const { width, height, model } = result;
    return { blob: new Blob(chunks, { type: result.contentType }), width, height, model };
  }

  /** Ends the request, and so the work on the server. */
  cancel() {
    if (this.state === "waiting") {
      this.state = "ready";
      this.#restoreEarlier();
    }
    this.#abort?.abort();
  }

  /** Asks what the server would do; keeps its answer or its refusal. */
  async ask(client, options, signal) {
    try {
      const head = this.file.slice(0, HEADER_BYTES, this.file.type);
      const verdict = await client.dryRun(head, { ...options, signal });
      [this.verdict, this.source] = [
        verdict,
        { width: verdict.source.width_px, height: verdict.source.height_px },
      ];
      if (this.state === "ready") this.error = undefined;
    } catch (error) {
      if (signal.aborted) return;
      this.verdict = undefined;
      // A part of a file may be more broken than the whole; only the whole can be refused for that.
      const sure =
        error instanceof UpscaledError &&
        (this.file.size <= HEADER_BYTES || error.reason !== "INVALID_IMAGE");
      if (this.state === "ready") this.error = sure && !error.retryable ? error : undefined;
    }
  }

  /** Gives back what the browser holds for it. */
  dispose() {
    this.cancel();
    URL.revokeObjectURL(this.url);
    this.#forgetResult();
  }

  #restoreEarlier() {
    if (this.result) Object.assign(this, this.#earlier);
  }

  #forgetResult() {
    if (this.result) URL.revokeObjectURL(this.result.url);
    this.result = undefined;
  }
}

/**
 * All images, in the order in which they came. `changed(job)` is called when one changes, and
 * `ended(job, end)` when one's run has ended: see Job.run.
 */
export class Queue {
  jobs = [];
  #changed;
  #ended;
  #client;

  constructor(client, changed, ended) {
    this.#client = client;
    this.#changed = changed;
    this.#ended = ended;
  }

  setClient(client) {
    this.#client = client;
  }

  add(files) {
    const made = files.map((file) => new Job(file));
    this.jobs.push(...made);
    return made;
  }

  /** Adds jobs as they are. */
  restore(jobs) {
    this.jobs.unshift(...jobs);
  }

  remove(job) {
    job.dispose();
    this.jobs = this.jobs.filter((other) => other !== job);
    this.#advance();
  }

  /** Lets `jobs` wait for their turn, with the options of now. */
  start(jobs, options) {
    for (const job of jobs) {
      if (job.running) continue;
      job.wait(options);
      this.#changed(job);
    }
    this.#advance();
  }

  cancel(job) {
    job.cancel();
    this.#changed(job);
  }

  cancelAll() {
    for (const job of this.jobs) if (job.running || job.state === "waiting") this.cancel(job);
  }

  count(...states) {
    return this.jobs.filter((job) => states.includes(job.state)).length;
  }

  #advance() {
    for (const job of this.jobs) {
      if (this.jobs.filter((other) => other.running).length >= AT_A_TIME) return;
      if (job.state !== "waiting") continue;
      job.run(this.#client, () => this.#changed(job)).then((end) => {
        this.#ended(job, end);
        this.#advance();
      });
    }
  }
}
