// Paints a result while its bytes come: through WebCodecs where the browser has it, else from a
// growing Blob.

const MAX_PREVIEW_SIDE_PX = 2048;
const MIN_INTERVAL_MS = 80;

/** A canvas that shows as much of an encoded image as has come. */
export class Painter {
  canvas = document.createElement("canvas");
  /** How many times something was painted. */
  frames = 0;
  #sink;

  constructor(contentType) {
    const draw = (image, width, height) => this.#draw(image, width, height);
    const canDecode = typeof globalThis.ImageDecoder === "function";
    this.#sink = canDecode ? new DecoderSink(contentType, draw) : new BlobSink(contentType, draw);
  }

  /** Takes the next bytes. Never waits. */
  write(chunk) {
    this.#sink.write(chunk);
  }

  /** No more will come. */
  close() {
    this.#sink.close();
  }

  #draw(image, width, height) {
    const shrink = Math.min(1, MAX_PREVIEW_SIDE_PX / Math.max(width, height));
    const size = [
      Math.max(1, Math.round(width * shrink)),
      Math.max(1, Math.round(height * shrink)),
    ];
    if (this.canvas.width !== size[0] || this.canvas.height !== size[1])
      [this.canvas.width, this.canvas.height] = size;
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, ...size);
    context.drawImage(image, 0, 0, ...size);
    this.frames += 1;
  }
}

/** Lets ImageDecoder read the growing image, and asks it for a partial frame now and then. */
class DecoderSink {
  #controller;
  #decoder;
  #closed = false;
  #draw;

  constructor(contentType, draw) {
    this.#draw = draw;
    const data = new ReadableStream({ start: (controller) => (this.#controller = controller) });
    this.#decoder = new ImageDecoder({ data, type: contentType });
    this.#run();
  }

  write(chunk) {
    if (!this.#closed) this.#controller.enqueue(chunk.slice());
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#controller.close();
  }

  async #run() {
    try {
      for (let complete = false; !complete;) {
        const begin = performance.now();
        const { image, complete: whole } = await this.#decoder.decode({
          completeFramesOnly: false,
        });
        this.#draw(image, image.displayWidth, image.displayHeight);
        image.close();
        complete = whole;
        // Decoding and copying a large image again and again must not take all of the time.
        const pause = Math.max(MIN_INTERVAL_MS, 2 * (performance.now() - begin));
        if (!complete && !this.#closed)
          await new Promise((resolve) => setTimeout(resolve, Math.min(pause, 2000)));
      }
    } catch {
      // Broken off, or nothing that this browser decodes in parts: the whole result is shown when
      // it is there.
    } finally {
      this.#decoder.close();
      this.#closed = true;
    }
  }
}

/** Makes a Blob of what has come, twice as rarely each time it takes long. */
class BlobSink {
  #chunks = [];
  #type;
  #draw;
  #closed = false;
  #busy = false;

  constructor(contentType, draw) {
    this.#type = contentType;
    this.#draw = draw;
  }

  write(chunk) {
    this.#chunks.push(chunk);
    if (!this.#busy) this.#show();
  }

  close() {
    this.#closed = true;
    this.#chunks = [];
  }

  #show() {
    this.#busy = true;
    const begin = performance.now();
    const url = URL.createObjectURL(new Blob(this.#chunks, { type: this.#type }));
    const image = new Image();
    const settle = () => {
      // A browser may call a truncated image an error and still have its upper rows.
      if (image.naturalWidth && !this.#closed)
        this.#draw(image, image.naturalWidth, image.naturalHeight);
      URL.revokeObjectURL(url);
      const pause = Math.max(4 * MIN_INTERVAL_MS, 4 * (performance.now() - begin));
      setTimeout(() => (this.#busy = false), pause);
    };
    image.onload = settle;
    image.onerror = settle;
    image.src = url;
  }
}
