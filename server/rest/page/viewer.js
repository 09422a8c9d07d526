// Two images one over the other, divided by a slider; zoom and pan by wheel, fingers and keys.

import { element } from "./dom.js";

const MAX_ZOOM = 16; // device pixels per pixel of the right image
const KEY_PAN_PX = 60;

/**
 * Shows a pair of images of the same subject in the size of the right one.
 *
 * A position is kept as a fraction of the image, so that it stays when a preview makes place for
 * the result.
 */
export class Viewer {
  #root;
  #stage;
  #layers;
  #tags;
  #divider;
  #slider;
  #zoomButtons;
  #outline = element("div", { className: "outline", hidden: true });
  #size = { width: 1, height: 1 };
  #zoom = "fit";
  #center = { x: 0.5, y: 0.5 };
  #pointers = new Map();

  constructor(root) {
    this.#root = root;
    this.#layers = ["left", "right"].map((side) => element("div", { className: `layer ${side}` }));
    this.#tags = ["left", "right"].map((side) => element("span", { className: `tag ${side}` }));
    this.#divider = element(
      "div",
      { className: "divider" },
      element("span", { className: "grip" }),
    );
    this.#divider.setAttribute("aria-hidden", "true");
    this.#stage = element(
      "div",
      { className: "stage", tabIndex: 0, role: "group" },
      ...this.#layers,
      this.#outline,
      this.#divider,
      ...this.#tags,
    );
    this.#stage.setAttribute(
      "aria-label",
      "Image. Arrow keys move it, plus and minus zoom, 0 fits, 1 and 4 show it 1:1 and 4:1.",
    );
    this.#slider = element("input", { type: "range", min: 0, max: 100, step: 0.5, value: 50 });
    this.#slider.setAttribute("aria-label", "Where the two images meet");
    this.#zoomButtons = [
      ["fit", "Fit"],
      [1, "1:1"],
      [4, "4:1"],
    ].map(([zoom, label]) => {
      const button = element("button", { type: "button", textContent: label });
      button.addEventListener("click", () => this.zoomTo(zoom));
      button.zoom = zoom;
      return button;
    });
    const zooms = element("div", { className: "segments", role: "group" }, ...this.#zoomButtons);
    zooms.setAttribute("aria-label", "Zoom");
    /** Place for the buttons of whoever uses the viewer. */
    this.actions = element("div", { className: "actions" });
    root.append(
      this.#stage,
      element("div", { className: "viewer-bar" }, zooms, this.#slider, this.actions),
    );
    this.#listen();
  }

  /**
   * `left` and `right`: {label, content: an img or a canvas}; a content, or all of `right`, may be
   * absent. `size` is the pair's, in pixels.
   * `over`: the left image goes on below the right one, and is seen where that has nothing yet.
   */
  show(left, right, size, { over = false } = {}) {
    const sides = [left, right];
    sides.forEach((side, i) => {
      const content = side?.content;
      if (this.#layers[i].firstChild !== (content ?? null))
        this.#layers[i].replaceChildren(...(content ? [content] : []));
      this.#tags[i].textContent = side?.label ?? "";
      this.#tags[i].hidden = !side?.label;
    });
    this.#root.classList.toggle("single", !(left?.content && right));
    this.#root.classList.toggle("over", over);
    this.#slider.disabled = !(left?.content && right);
    this.#size = { width: Math.max(1, size.width), height: Math.max(1, size.height) };
    this.#place();
  }

  /** Goes back to seeing all of the image, divided at `percent`. */
  reset(percent = 50) {
    this.#zoom = "fit";
    this.#center = { x: 0.5, y: 0.5 };
    this.splitAt(percent);
  }

  splitAt(percent) {
    this.#slider.value = String(percent);
    this.#place();
  }

  /** "fit", or device pixels per pixel; `at`: the point in the stage that stays, in CSS pixels. */
  zoomTo(zoom, at) {
    const before = this.#scale();
    this.#zoom = zoom;
    const after = this.#scale();
    if (at) {
      const { width, height } = this.#stage.getBoundingClientRect();
      const shift = 1 / before - 1 / after;
      this.#center.x += ((at.x - width / 2) * shift) / this.#size.width;
      this.#center.y += ((at.y - height / 2) * shift) / this.#size.height;
    }
    this.#place();
  }

  /** The part that can be seen, in fractions of the image. */
  visibleRegion() {
    const { width, height } = this.#stage.getBoundingClientRect();
    const scale = this.#scale();
    const half = {
      x: width / scale / this.#size.width / 2,
      y: height / scale / this.#size.height / 2,
    };
    const clamp = (value) => Math.min(1, Math.max(0, value));
    const [left, right] = [clamp(this.#center.x - half.x), clamp(this.#center.x + half.x)];
    const [top, bottom] = [clamp(this.#center.y - half.y), clamp(this.#center.y + half.y)];
    return { x: left, y: top, width: right - left, height: bottom - top };
  }

  /** Draws a frame around a region, in fractions of the image; undefined: none. */
  outline(region) {
    this.#outline.hidden = !region;
    this.#outline.region = region;
    this.#place();
  }

  /** Calls `callback` whenever another part of the image is seen. */
  onMove(callback) {
    this.#root.addEventListener("viewmove", callback);
  }

  /** CSS pixels per pixel of the image. */
  #scale() {
    if (this.#zoom !== "fit") return this.#zoom / devicePixelRatio;
    const { width, height } = this.#stage.getBoundingClientRect();
    return Math.min(width / this.#size.width, height / this.#size.height, 8) || 1;
  }

  #place() {
    const { width, height } = this.#stage.getBoundingClientRect();
    if (!width) return;
    const scale = this.#scale();
    const [shownWidth, shownHeight] = [this.#size.width * scale, this.#size.height * scale];
    const offset = (center, shown, room) =>
      shown <= room
        ? (room - shown) / 2
        : Math.min(0, Math.max(room - shown, room / 2 - center * shown));
    const x = offset(this.#center.x, shownWidth, width);
    const y = offset(this.#center.y, shownHeight, height);
    this.#center = { x: (width / 2 - x) / shownWidth, y: (height / 2 - y) / shownHeight };
    const split = Number(this.#slider.value);
    for (const layer of this.#layers) {
      const content = layer.firstElementChild;
      if (!content) continue;
      content.classList.toggle("pixelated", scale * devicePixelRatio >= 4);
      Object.assign(content.style, {
        width: `${shownWidth}px`,
        height: `${shownHeight}px`,
        transform: `translate(${x}px, ${y}px)`,
      });
    }
    this.#layers[0].style.clipPath = `inset(0 ${100 - split}% 0 0)`;
    this.#layers[1].style.clipPath = `inset(0 0 0 ${split}%)`;
    this.#divider.style.left = `${split}%`;
    const { region } = this.#outline;
    if (region) {
      Object.assign(this.#outline.style, {
        left: `${x + region.x * shownWidth}px`,
        top: `${y + region.y * shownHeight}px`,
        width: `${region.width * shownWidth}px`,
        height: `${region.height * shownHeight}px`,
      });
    }
    // While all is seen, a finger scrolls the page; it moves the image when there is more of it.
    this.#stage.classList.toggle("movable", shownWidth > width + 1 || shownHeight > height + 1);
    for (const button of this.#zoomButtons)
      button.setAttribute("aria-pressed", String(button.zoom === this.#zoom));
    this.#root.dispatchEvent(new Event("viewmove"));
  }

  #pan(dx, dy) {
    const scale = this.#scale();
    this.#center.x -= dx / scale / this.#size.width;
    this.#center.y -= dy / scale / this.#size.height;
    this.#place();
  }

  #zoomBy(factor, at) {
    const zoom = this.#scale() * devicePixelRatio * factor;
    const fit = Math.min(this.#fitZoom(), 1);
    if (zoom <= fit) this.zoomTo("fit");
    else this.zoomTo(Math.min(MAX_ZOOM, zoom), at);
  }

  #fitZoom() {
    const { width, height } = this.#stage.getBoundingClientRect();
    return Math.min(width / this.#size.width, height / this.#size.height) * devicePixelRatio;
  }

  #at(event) {
    const { left, top } = this.#stage.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  #listen() {
    const stage = this.#stage;
    new ResizeObserver(() => this.#place()).observe(stage);
    this.#slider.addEventListener("input", () => this.#place());
    stage.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const pixels = event.deltaY * (event.deltaMode ? 30 : 1);
        this.#zoomBy(Math.exp(-pixels / (event.ctrlKey ? 100 : 400)), this.#at(event));
      },
      { passive: false },
    );
    stage.addEventListener("dblclick", (event) =>
      this.zoomTo(this.#zoom === "fit" ? 1 : "fit", this.#at(event)),
    );
    stage.addEventListener("keydown", (event) => this.#onKey(event));
    stage.addEventListener("pointerdown", (event) => this.#onPointerDown(event));
    stage.addEventListener("pointermove", (event) => this.#onPointerMove(event));
    for (const name of ["pointerup", "pointercancel"]) {
      stage.addEventListener(name, (event) => this.#pointers.delete(event.pointerId));
    }
  }

  #onKey(event) {
    const actions = {
      ArrowLeft: () => this.#pan(KEY_PAN_PX, 0),
      ArrowRight: () => this.#pan(-KEY_PAN_PX, 0),
      ArrowUp: () => this.#pan(0, KEY_PAN_PX),
      ArrowDown: () => this.#pan(0, -KEY_PAN_PX),
      "+": () => this.#zoomBy(1.5),
      "=": () => this.#zoomBy(1.5),
      "-": () => this.#zoomBy(1 / 1.5),
      0: () => this.zoomTo("fit"),
      1: () => this.zoomTo(1),
      4: () => this.zoomTo(4),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  #onPointerDown(event) {
    if (event.button) return;
    const divides = this.#divider.contains(event.target);
    this.#pointers.set(event.pointerId, { ...this.#at(event), divides });
    this.#stage.setPointerCapture(event.pointerId);
  }

  #onPointerMove(event) {
    const before = this.#pointers.get(event.pointerId);
    if (!before) return;
    const now = { ...this.#at(event), divides: before.divides };
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.#pointers.set(event.pointerId, now);
    if (other) {
      const distance = (a, b) => Math.max(1, Math.hypot(a.x - b.x, a.y - b.y));
      const middle = { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 };
      this.#zoomBy(distance(now, other) / distance(before, other), middle);
      if (this.#zoom !== "fit") this.#pan((now.x - before.x) / 2, (now.y - before.y) / 2);
    } else if (now.divides) {
      this.splitAt(Math.min(100, Math.max(0, (100 * now.x) / this.#stage.clientWidth)));
    } else {
      this.#pan(now.x - before.x, now.y - before.y);
    }
  }
}
