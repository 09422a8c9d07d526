// The list of the images: a row each, which follows its job.

import { byId, element, formatBytes, formatSeconds } from "./dom.js";
import { explain } from "./errors.js";

function promiseOf({ result, estimated_seconds: seconds }) {
  const size = `${result.width_px} × ${result.height_px}`;
  // A server that has computed nothing yet does not know.
  return seconds === null ? size : `${size}, ${formatSeconds(seconds)}`;
}

/** The level of noise that was removed, if the person or the server was to choose one. */
function noiseOf({ noiseLevel, options }) {
  if (noiseLevel >= 0) return [`noise ${noiseLevel} removed`];
  return options?.noiseLevel === "auto" ? ["no noise removed"] : [];
}

/** Text of what a job does or has come to. */
function statusOf(job) {
  const { source, verdict, result } = job;
  const size = source ? `${source.width} × ${source.height}` : formatBytes(job.file.size);
  switch (job.state) {
    case "ready":
      if (job.error) return size;
      if (!verdict) return size;
      return `${size} → ${promiseOf(verdict)}`;
    case "waiting":
      return "Waiting for its turn";
    case "sending":
      if (job.sent && job.sent < job.file.size)
        return `Sending, ${formatBytes(job.sent)} of ${formatBytes(job.file.size)}`;
      return job.sent ? "Sent; the server begins" : `Sending ${formatBytes(job.file.size)}`;
    case "computing":
      return job.tiles ? `Computing, ${job.tilesDone} of ${job.tiles} tiles` : "Computing";
    case "done":
      return [
        `${result.width} × ${result.height}`,
        formatBytes(result.blob.size),
        `${result.seconds.toFixed(1)} s`,
        ...(job.frames > 1 ? [`${job.frames} frames`] : []),
        ...noiseOf(job),
      ].join(", ");
    case "cancelled":
      return "Cancelled";
    default:
      return "";
  }
}

const DOWNLOAD = "M12 4v11m-5-5 5 5 5-5M5 20h14";
const CROSS = "M6 6l12 12M18 6 6 18";

function icon(path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS("http://www.w3.org/2000/svg", "path"));
  svg.firstChild.setAttribute("d", path);
  return svg;
}

class Row {
  root = element("li", { className: "job" });
  #job;
  #pick;
  #status = element("span", { className: "job-status" });
  #bars;
  #upload;
  #tiles;
  #error = element("div", { className: "error", hidden: true });
  #warnings = element("ul", { className: "warnings", hidden: true });
  #again;
  #cancel;
  #download;
  #remove;

  constructor(job, host) {
    this.#job = job;
    const thumb = element("img", {
      src: job.url,
      alt: "",
      width: 48,
      height: 48,
      decoding: "async",
      draggable: false,
    });
    thumb.addEventListener("error", () => thumb.classList.add("broken"));
    const text = element(
      "span",
      { className: "job-text" },
      element("span", { className: "job-name", textContent: job.name }),
      this.#status,
    );
    this.#pick = element("button", { type: "button", className: "pick" }, thumb, text);
    this.#pick.addEventListener("click", () => host.select(job));
    const bar = () => element("progress", { max: 1 });
    [this.#upload, this.#tiles] = [bar(), bar()];
    this.#bars = element(
      "div",
      { className: "bars" },
      element("label", {}, "Upload", this.#upload),
      element("label", {}, "Tiles", this.#tiles),
    );
    const button = (label, action) => {
      const made = element("button", {
        type: "button",
        textContent: label,
        "aria-label": `${label} ${job.name}`,
      });
      made.addEventListener("click", action);
      return made;
    };
    this.#again = button("Again", () => host.start(job));
    this.#cancel = button("Cancel", () => host.cancel(job));
    this.#download = element(
      "a",
      { className: "button icon primary", "aria-label": `Download ${job.name}`, title: "Download" },
      icon(DOWNLOAD),
    );
    this.#remove = element(
      "button",
      { type: "button", className: "icon", "aria-label": `Remove ${job.name}`, title: "Remove" },
      icon(CROSS),
    );
    this.#remove.addEventListener("click", () => host.remove(job));
    const actions = element(
      "div",
      { className: "job-actions" },
      this.#again,
      this.#cancel,
      this.#download,
      this.#remove,
    );
    this.root.append(
      element("div", { className: "job-head" }, this.#pick, actions),
      this.#bars,
      this.#warnings,
      this.#error,
    );
  }

  update(selected) {
    const job = this.#job;
    this.root.dataset.state = job.state;
    this.root.classList.toggle("selected", selected);
    this.#pick.setAttribute("aria-current", String(selected));
    this.#status.textContent = statusOf(job);
    this.#bars.hidden = !job.running;
    if (job.sent) this.#upload.value = Math.min(1, job.sent / job.file.size);
    else this.#upload.removeAttribute("value"); // not known: the bar moves to and fro
    this.#tiles.value = job.tiles ? job.tilesDone / job.tiles : 0;
    this.#again.hidden = !["failed", "cancelled"].includes(job.state) && !(job.result && job.error);
    this.#cancel.hidden = !job.running && job.state !== "waiting";
    this.#remove.hidden = !this.#cancel.hidden;
    this.#download.hidden = job.state !== "done";
    if (job.result)
      [this.#download.href, this.#download.download] = [job.result.url, resultName(job)];
    this.#showWarnings(job.warnings);
    this.#showError(job.error);
  }

  #showWarnings(warnings) {
    if (this.#warnings.childElementCount === warnings.length) return;
    this.#warnings.hidden = !warnings.length;
    this.#warnings.replaceChildren(
      ...warnings.map((warning) => element("li", { textContent: warning })),
    );
  }

  #showError(error) {
    if (this.#error.error === error) return;
    this.#error.error = error;
    this.#error.hidden = !error;
    if (!error) return;
    const { title, detail, advice } = explain(error);
    this.#error.replaceChildren(
      element("strong", { textContent: title }),
      element("span", { textContent: detail }),
      element("span", { className: "advice", textContent: advice }),
    );
  }
}

/** File name of a result: cat.jpg becomes cat-640x480.png. */
export function resultName({ name, result }) {
  const stem = name.replace(/\.[^.]*$/, "");
  const extension =
    {
      "image/png": "png",
      "image/jpeg": "jpg",
      "image/webp": "webp",
      "image/avif": "avif",
      "image/jxl": "jxl",
      "image/tiff": "tif",
    }[result.blob.type] ?? "img";
  return `${stem}-${result.width}x${result.height}.${extension}`;
}

/** Keeps the list like the queue's jobs. `host`: {select, start, cancel, remove}, each of a job. */
export class QueueView {
  #rows = new Map();
  #list = byId("jobs");
  #host;

  constructor(host) {
    this.#host = host;
  }

  update(jobs, selected) {
    for (const [job, row] of this.#rows) {
      if (jobs.includes(job)) continue;
      row.root.remove();
      this.#rows.delete(job);
    }
    for (const job of jobs) {
      let row = this.#rows.get(job);
      if (!row) {
        row = new Row(job, this.#host);
        this.#rows.set(job, row);
        this.#list.append(row.root);
      }
      row.update(job === selected);
    }
    byId("queue-empty").hidden = jobs.length > 0;
  }
}
