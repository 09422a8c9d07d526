// Two models on a crop: the crop is cut here and sent twice, which takes a moment where the whole
// would take long.

import { element, fillSelect } from "./dom.js";
import { explain } from "./errors.js";
import { parseVariant } from "./options.js";

const MAX_SIDE_PX = 384;

/**
 * The part of a source, {x, y, width, height} in pixels, around the middle of `region` (fractions).
 */
export function cropOf(region, source) {
  const side = (begin, length, pixels) => {
    const size = Math.max(1, Math.min(MAX_SIDE_PX, Math.round(length * pixels)));
    const middle = (begin + length / 2) * pixels;
    return [Math.round(Math.min(pixels - size, Math.max(0, middle - size / 2))), size];
  };
  const [x, width] = side(region.x, region.width, source.width);
  const [y, height] = side(region.y, region.height, source.height);
  return { x, y, width, height };
}

async function cut(file, { x, y, width, height }) {
  const bitmap = await createImageBitmap(file, x, y, width, height);
  const canvas = element("canvas", { width, height });
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  bitmap.close();
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** The panel. `host`: {client(), options(), choose(model, noiseLevel), closed()}. */
export class Comparison {
  #root;
  #viewer;
  #host;
  #selects;
  #run;
  #message = element("p", { className: "hint" });
  #job;
  #crop; // that is shown by two models
  #abort;
  #urls = [];
  #aiming = false; // drawing the frame moves nothing, but is told as if

  constructor(root, viewer, host) {
    this.#root = root;
    this.#viewer = viewer;
    this.#host = host;
    this.#selects = ["Left", "Right"].map((side) =>
      element("select", { "aria-label": `Model on the ${side.toLowerCase()}` }),
    );
    this.#run = element("button", { type: "button", className: "primary", textContent: "Compare" });
    this.#run.addEventListener("click", () => this.#compare());
    const close = element("button", { type: "button", textContent: "Back to the image" });
    close.addEventListener("click", () => this.close());
    const uses = this.#selects.map((select, i) => {
      const use = element("button", {
        type: "button",
        textContent: `Use the ${["left", "right"][i]} one`,
      });
      use.addEventListener("click", () => {
        const { model, noiseLevel } = parseVariant(select.value);
        this.close();
        this.#host.choose(model, noiseLevel);
      });
      return use;
    });
    this.#message.setAttribute("role", "status");
    root.append(
      element(
        "div",
        { className: "compare-row" },
        this.#selects[0],
        element("span", { textContent: "against" }),
        this.#selects[1],
        this.#run,
      ),
      this.#message,
      element("div", { className: "compare-row" }, ...uses, close),
    );
    viewer.onMove(() => this.#aim());
  }

  get open() {
    return !this.#root.hidden;
  }

  /** Opens for a job whose source is shown, with the models on offer. */
  start(job, variants) {
    this.#job = job;
    this.#crop = undefined;
    this.#selects.forEach((select) => fillSelect(select, variants));
    const [first, second] = this.#selects;
    const { model, noiseLevel } = this.#host.options();
    first.value = `${noiseLevel === "auto" ? -1 : noiseLevel} ${model}`;
    if (second.value === first.value)
      second.value = variants.find(([value]) => value !== first.value)?.[0] ?? first.value;
    this.#root.hidden = false;
    this.#aim();
    this.#run.focus();
  }

  close() {
    if (!this.open) return;
    this.#abort?.abort();
    this.#root.hidden = true;
    this.#viewer.outline();
    this.#forget();
    this.#host.closed();
  }

  /** Frames what would be cut out of what is seen. */
  #aim() {
    const source = this.#job?.source;
    if (!this.open || this.#crop || !source || this.#aiming) return;
    this.#aiming = true;
    const { x, y, width, height } = cropOf(this.#viewer.visibleRegion(), source);
    this.#viewer.outline({
      x: x / source.width,
      y: y / source.height,
      width: width / source.width,
      height: height / source.height,
    });
    const size = `${width} × ${height} pixels`;
    this.#message.textContent = `${size} of the source. Zoom and move to choose others.`;
    this.#aiming = false;
  }

  async #compare() {
    this.#abort?.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const crop = this.#crop ?? cropOf(this.#viewer.visibleRegion(), this.#job.source);
    this.#run.disabled = true;
    this.#message.textContent = "Computing…";
    try {
      const image = await cut(this.#job.file, crop);
      const sides = await Promise.all(
        this.#selects.map((select) => this.#upscale(image, select, signal)),
      );
      if (signal.aborted) return;
      this.#crop = crop;
      this.#viewer.outline();
      this.#viewer.show(sides[0], sides[1], {
        width: sides[0].content.naturalWidth,
        height: sides[0].content.naturalHeight,
      });
      this.#viewer.reset();
      this.#message.textContent = `The same ${crop.width} × ${crop.height} pixels by both.`;
    } catch (error) {
      if (signal.aborted) return;
      const { title, detail, advice } = explain(error);
      this.#message.textContent = `${title}: ${detail}. ${advice}`;
    } finally {
      this.#run.disabled = false;
    }
  }

  /** The crop by the model that `select` says, as Viewer.show takes it. */
  async #upscale(image, select, signal) {
    const { scale = 2 } = this.#host.options();
    const options = { ...parseVariant(select.value), scale, format: "png", signal, retries: 3 };
    const result = await this.#host.client().upscale(image, options);
    const content = await this.#imageOf(await result.blob());
    return { label: select.selectedOptions[0].textContent, content };
  }

  async #imageOf(blob) {
    const url = URL.createObjectURL(blob);
    this.#urls.push(url);
    const image = element("img", { src: url, alt: "The crop by this model", draggable: false });
    await image.decode();
    return image;
  }

  #forget() {
    this.#urls.forEach((url) => URL.revokeObjectURL(url));
    this.#urls = [];
  }
}
