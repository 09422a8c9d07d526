// The tools that the tests of the page share: the browser, images to drop, and looks at the page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
export const TIMEOUT_MS = 1000 * Number(process.env.WAIT_S ?? 60);

export const url = process.env.UPSCALED_URL;
const OTHER_HOST = "server.test";
/** The server as from another machine without TLS, which browsers trust less than this one. */
export const remoteUrl = url.replace("127.0.0.1", OTHER_HOST);
/** A server that wants keys: its url, and the keys of a reader and an uploader. */
export const keys = JSON.parse(process.env.UPSCALED_KEYS);

export function launch() {
  return puppeteer.launch({
    executablePath: process.env.BROWSER,
    args: [
      "--no-sandbox",
      "--disable-dev-shm-usage",
      "--force-color-profile=srgb",
      `--host-resolver-rules=MAP ${OTHER_HOST} 127.0.0.1`,
    ],
    protocolTimeout: TIMEOUT_MS,
  });
}

/**
 * A fresh session's page of the server. Its `problems` are what the console should not have said.
 */
export async function openPage(
  browser,
  {
    viewport = { width: 1280, height: 800 },
    scheme = "light",
    prepare,
    server = url,
    path = "/",
  } = {},
) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => {
    // A refused request is logged as an error, too, and is no fault of the page.
    if (message.type() === "error" && !/status of 4\d\d/.test(message.text()))
      page.problems.push(message.text());
  });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setViewport(viewport);
  await prepare?.(page);
  await page.goto(server + path);
  page.finish = async () => {
    assert.deepEqual(page.problems, []);
    await context.close();
  };
  return page;
}

/**
 * Notes each drawing of a result that is there at its top and not yet at its bottom, as
 * `window.partialFrames`.
 */
export function watchFrames(page) {
  return page.evaluateOnNewDocument(() => {
    window.partialFrames = 0;
    window.frames_ = 0;
    const draw = CanvasRenderingContext2D.prototype.drawImage;
    CanvasRenderingContext2D.prototype.drawImage = function (...args) {
      draw.apply(this, args);
      const alpha = (y) => this.getImageData(0, y, 1, 1).data[3];
      window.frames_ += 1;
      if (alpha(0) === 255 && alpha(this.canvas.height - 1) === 0) window.partialFrames += 1;
    };
  });
}

/** Drops files, {name: bytes}, onto the page, or pastes them. */
export function give(page, files, event = "drop") {
  const list = Object.entries(files).map(([name, bytes]) => [
    name,
    Buffer.from(bytes).toString("base64"),
  ]);
  return page.evaluate(
    (entries, kind) => {
      const data = new DataTransfer();
      for (const [name, base64] of entries) {
        const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
        data.items.add(new File([bytes], name, { type: name.endsWith(".png") ? "image/png" : "" }));
      }
      const options = { bubbles: true, cancelable: true };
      const init =
        kind === "drop" ? { ...options, dataTransfer: data } : { ...options, clipboardData: data };
      const made = kind === "drop" ? new DragEvent(kind, init) : new ClipboardEvent(kind, init);
      (
        document.querySelector("#drop:not([hidden])") ?? document.querySelector("#viewer")
      ).dispatchEvent(made);
    },
    list,
    event,
  );
}

/** Waits for the state of the job of a file. */
export function waitForState(page, name, state) {
  return page.waitForFunction(
    (wanted, wantedState) =>
      [...document.querySelectorAll(".job")].some(
        (row) =>
          row.querySelector(".job-name").textContent === wanted &&
          row.dataset.state === wantedState,
      ),
    {},
    name,
    state,
  );
}

/** Waits until an element lies still: clicks on a place that it has left would miss it. */
const liesStill = (element) =>
  new Promise((resolve) => {
    let before = "";
    const look = () => {
      element.scrollIntoView({ block: "nearest", behavior: "instant" });
      const box = JSON.stringify(element.getBoundingClientRect());
      if (box === before) return resolve();
      before = box;
      requestAnimationFrame(look);
    };
    look();
  });

/** Clicks the button, link or label of a text or an aria-label, once there is one. */
export async function click(page, text) {
  const find = (wanted) =>
    [...document.querySelectorAll("button, a, label")].find(
      (element) =>
        element.checkVisibility() &&
        (element.getAttribute("aria-label") === wanted || element.textContent.trim() === wanted),
    );
  const found = await page.waitForFunction(find, { timeout: 10_000 }, text).catch((cause) => {
    throw new Error(`nothing to click on is called ${text}`, { cause });
  });
  await found.evaluate(liesStill);
  await found.click();
}

/** Taps the element of a selector, once it lies still. */
export async function tap(page, selector) {
  const found = await page.waitForSelector(selector);
  await found.evaluate(liesStill);
  await found.tap();
}

export const textOf = (page, selector) => page.$eval(selector, (element) => element.textContent);

/** Checks the page as it is against WCAG AA, and that nothing sticks out sideways. */
export async function checkAccessible(page, what) {
  const { violations } = await page.evaluate(
    `${AXE}; axe.run(document, { runOnly: ${JSON.stringify(TAGS)} })`,
  );
  const lines = violations.map(
    ({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.join(" ")).join(", ")}`,
  );
  assert.deepEqual(lines, [], what);
  const [content, room] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    innerWidth,
  ]);
  assert.ok(content <= room, `${what}: ${content} pixels wide in ${room}`);
}

/** Keeps a screenshot of the page as a test artifact. */
export function keepScreenshot(page, name) {
  return page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png` });
}
