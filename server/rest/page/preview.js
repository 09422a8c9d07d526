// The viewer's image of a job: the source, beside it as much of the result as there is.

import { element } from "./dom.js";

/** Shows one job at a time in a viewer. */
export class Preview {
  #viewer;
  #images = new WeakMap(); // job -> {source, result}
  #shown; // job and state that were shown last

  constructor(viewer) {
    this.#viewer = viewer;
  }

  /** Follows `job`; call it whenever the job has changed. */
  update(job) {
    const images = this.#imagesOf(job);
    const broken = images.source.complete && !images.source.naturalWidth;
    const left = broken ? { label: "No preview" } : { label: "Source", content: images.source };
    const right = this.#right(job, images);
    this.#viewer.show(left, right, this.#size(job, images), { over: right?.grows || !right });
    this.#divide(job, right);
  }

  /** Makes the next update begin anew, as after something else was shown. */
  forget() {
    this.#shown = undefined;
  }

  #right(job, images) {
    // An earlier result is seen until there is something of the next.
    if (job.result && !job.painter?.frames) {
      if (images.result?.src !== job.result.url) {
        images.result = element("img", {
          src: job.result.url,
          alt: `${job.name}, upscaled`,
          draggable: false,
        });
      }
      return { label: job.result.model, content: images.result };
    }
    if (!job.painter?.frames) return undefined;
    const { canvas } = job.painter;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${job.name}, as far as it is computed`);
    return { label: job.model, content: canvas, grows: true };
  }

  #size(job, { source }) {
    if (job.result) return job.result;
    const verdict = job.verdict?.result;
    if (verdict) return { width: verdict.width_px, height: verdict.height_px };
    return { width: source.naturalWidth, height: source.naturalHeight };
  }

  /** A result that grows is seen whole; the finished one beside its source. */
  #divide(job, right) {
    const phase = right?.grows ? "growing" : right ? "result" : "source";
    if (this.#shown?.job === job && this.#shown.phase === phase) return;
    if (this.#shown?.job !== job) this.#viewer.reset();
    this.#viewer.splitAt({ source: 100, growing: 0, result: 50 }[phase]);
    this.#shown = { job, phase };
  }

  #imagesOf(job) {
    let images = this.#images.get(job);
    if (!images) {
      const source = element("img", {
        src: job.url,
        alt: `${job.name}, the source`,
        draggable: false,
      });
      images = { source };
      this.#images.set(job, images);
      source.addEventListener("load", () => {
        job.source ??= { width: source.naturalWidth, height: source.naturalHeight };
        if (this.#shown?.job === job) this.update(job);
      });
      source.addEventListener("error", () => this.#shown?.job === job && this.update(job));
    }
    return images;
  }
}
