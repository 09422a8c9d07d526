// The page in a real browser, against a real server.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import {
  checkAccessible,
  click,
  give,
  keepScreenshot,
  keys,
  launch,
  openPage,
  remoteUrl,
  tap,
  textOf,
  url,
  waitForState,
  watchFrames,
} from "./harness.js";
import { noisePng } from "./png.js";

const sample = readFileSync(process.env.SAMPLE);
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser?.close());

// A new folder that the page's downloads go to.
async function downloadFolder(page) {
  const folder = mkdtempSync(`${tmpdir()}/upscaled-page-`);
  const session = await page.createCDPSession();
  await session.send("Browser.setDownloadBehavior", {
    behavior: "allow",
    downloadPath: folder,
    browserContextId: page.browserContext().id,
  });
  return folder;
}

async function waitForFile(folder, ending) {
  for (;;) {
    const name = readdirSync(folder).find((candidate) => candidate.endsWith(ending));
    if (name) return [name, readFileSync(`${folder}/${name}`)];
    await sleep(50);
  }
}

/** Where the two images meet, in percent, and how wide the right one is shown, in CSS pixels. */
function look(page) {
  return page.evaluate(() => ({
    split: Number(document.querySelector(".viewer-bar input[type=range]").value),
    width: document.querySelector(".layer.right > *")?.getBoundingClientRect().width,
    left: document.querySelector(".layer.left > *")?.getBoundingClientRect().left,
  }));
}

test("drop, verdict, progress, comparison, download", async () => {
  const page = await openPage(browser);
  await page.waitForSelector("#health[data-state=ok]");
  assert.match(await textOf(page, "#health-text"), /^general-2x on CPU.* · idle$/);
  await checkAccessible(page, "the empty page");
  await keepScreenshot(page, "1-empty");

  await give(page, { "house.png": sample });
  await page.waitForFunction(() =>
    /320 × 240 → 640 × 480/.test(document.querySelector(".job-status").textContent),
  );
  await checkAccessible(page, "an image that waits for a start");
  await keepScreenshot(page, "2-ready");
  await click(page, "4×");
  await page.waitForFunction(() =>
    /→ 1280 × 960/.test(document.querySelector(".job-status").textContent),
  );
  await click(page, "2×");
  await page.waitForFunction(() =>
    /→ 640 × 480/.test(document.querySelector(".job-status").textContent),
  );
  await click(page, "Upscale");
  await waitForState(page, "house.png", "done");
  await page.waitForFunction(
    () => document.querySelector(".layer.right > img")?.naturalWidth === 640,
  );
  assert.match(await textOf(page, "#announcer"), /house\.png: done/);
  await checkAccessible(page, "a result");
  await sleep(300);
  await keepScreenshot(page, "3-result");

  const folder = await downloadFolder(page);
  await click(page, "Download house.png");
  const [name, bytes] = await waitForFile(folder, ".png");
  assert.equal(name, "house-640x480.png");
  const direct = await fetch(`${url}/v1/upscale?scale=2&format=png`, {
    method: "POST",
    body: sample,
  });
  assert.ok(
    bytes.equals(Buffer.from(await direct.arrayBuffer())),
    "what is saved is what the service gives",
  );
  await page.finish();
});

test("slider, wheel, drag and keys move the comparison", async () => {
  const page = await openPage(browser);
  await give(page, { "house.png": sample });
  await page.waitForSelector("#start:not([disabled])");
  await click(page, "Upscale");
  await waitForState(page, "house.png", "done");
  await page.waitForSelector(".layer.right > img");
  await sleep(100);
  const stage = await (await page.$(".stage")).boundingBox();
  const middle = { x: stage.x + stage.width / 2, y: stage.y + stage.height / 2 };

  assert.equal((await look(page)).split, 50);
  await page.mouse.move(middle.x, middle.y);
  await page.mouse.down();
  await page.mouse.move(middle.x + stage.width / 4, middle.y, { steps: 4 });
  await page.mouse.up();
  assert.ok(Math.abs((await look(page)).split - 75) < 1, JSON.stringify(await look(page)));
  await page.focus(".viewer-bar input[type=range]");
  await page.keyboard.press("Home");
  assert.equal((await look(page)).split, 0);

  await click(page, "1:1");
  assert.equal((await look(page)).width, 640);
  await click(page, "4:1");
  assert.equal((await look(page)).width, 2560);
  const before = await look(page);
  await page.mouse.move(middle.x, stage.y + 40);
  await page.mouse.down();
  await page.mouse.move(middle.x - 50, stage.y + 40, { steps: 2 });
  await page.mouse.up();
  assert.equal((await look(page)).left, before.left - 50);
  await keepScreenshot(page, "4-four-to-one");

  await page.focus(".stage");
  await page.keyboard.press("0");
  const fit = await look(page);
  assert.ok(fit.width > 640 && fit.width <= stage.width);
  await page.mouse.move(stage.x + 30, stage.y + 30);
  await page.mouse.wheel({ deltaY: -400 });
  await page.waitForFunction(
    (width) => document.querySelector(".layer.right > *").getBoundingClientRect().width > width,
    {},
    fit.width * 2,
  );
  await page.keyboard.press("1");
  assert.equal((await look(page)).width, 640);
  await page.finish();
});

test("a large upload is sent whole while its result comes back", async () => {
  const page = await openPage(browser);
  const image = noisePng(3000, 3000); // 27 MB
  await page.waitForSelector("#model option[value=fast-2x]");
  await page.select("#model", "fast-2x");
  await page.select("#format", "jpeg");
  const chooser = await page.$("#files");
  await give(page, {}); // nothing: no image, no error
  assert.equal((await page.$$(".job")).length, 0);
  const folder = mkdtempSync(`${tmpdir()}/upscaled-page-`);
  writeFileSync(`${folder}/noise.png`, image);
  await chooser.uploadFile(`${folder}/noise.png`);
  await page.waitForFunction(() =>
    /→ 6000 × 6000/.test(document.querySelector(".job-status")?.textContent ?? ""),
  );
  await click(page, "Upscale");
  await page.waitForFunction(() =>
    /Computing, [1-9]\d* of \d+ tiles/.test(document.querySelector(".job-status").textContent),
  );
  await keepScreenshot(page, "5-computing");
  await checkAccessible(page, "while computing");
  await waitForState(page, "noise.png", "done");
  assert.match(await textOf(page, ".job-status"), /^6000 × 6000, \d+ MB/);
  await page.finish();
});

async function seeItGrow(prepare) {
  const page = await openPage(browser, { prepare });
  await give(page, { "noise.png": noisePng(900, 1400) });
  await page.waitForSelector("#start:not([disabled])");
  await click(page, "Upscale");
  await page.waitForFunction(() => window.partialFrames > 0);
  await waitForState(page, "noise.png", "done");
  await page.finish();
}

test("the result is painted from the top as it comes", () => seeItGrow(watchFrames));

test("without WebCodecs, a growing Blob is painted", () =>
  seeItGrow(async (page) => {
    await page.evaluateOnNewDocument(() => delete window.ImageDecoder);
    await watchFrames(page);
  }));

test("cancel stops the work on the server", async () => {
  const page = await openPage(browser);
  let requestId;
  page.on("request", (request) => {
    const query = new URL(request.url()).searchParams;
    if (request.method() === "POST" && !query.has("dry_run")) requestId = query.get("request_id");
  });
  await give(page, { "noise.png": noisePng(1400, 1400) });
  await page.waitForSelector("#start:not([disabled])");
  await click(page, "8×");
  await click(page, "Upscale");
  await page.waitForFunction(() =>
    /Computing, [1-9]/.test(document.querySelector(".job-status").textContent),
  );
  assert.match(await textOf(page, "#health-text"), /1 running, 0 waiting/);
  const events = fetch(`${url}/v1/progress/${requestId}`).then((answer) => answer.text());
  await sleep(200);
  await click(page, "Cancel noise.png");
  await waitForState(page, "noise.png", "cancelled");
  const last = (await events).trim().split("\n\n").at(-1);
  assert.match(last, /event: failed/);
  assert.match(last, /CANCELLED/);
  await page.finish();
});

test("refused files say what, which limit and what to do", async () => {
  const page = await openPage(browser);
  await give(page, { "notes.txt": Buffer.from("no image at all"), "house.png": sample });
  await page.waitForSelector(".job .error:not([hidden])");
  const told = await textOf(page, ".job .error:not([hidden])");
  assert.match(told, /The server cannot read this image/);
  assert.match(told, /Save it as PNG, JPEG or WebP/);
  await give(page, { "tall.png": noisePng(2000, 2, { claimedHeight: 900_000 }) });
  await page.waitForFunction(() => /Too large/.test(document.querySelector("#jobs").textContent));
  assert.match(await textOf(page, "#jobs"), /1800000000.*100000000.*Choose a smaller image/);
  await checkAccessible(page, "refused files");
  await keepScreenshot(page, "6-refused");
  assert.equal(await textOf(page, "#start"), "Upscale"); // the one good image
  await click(page, "Remove notes.txt");
  await page.waitForFunction(() => !/notes/.test(document.querySelector("#jobs").textContent));
  await page.finish();
});

test("two models on a crop, before the whole is paid for", async () => {
  const page = await openPage(browser);
  await give(page, { "house.png": sample }, "paste");
  await page.waitForFunction(() =>
    /→/.test(document.querySelector(".job-status")?.textContent ?? ""),
  );
  await click(page, "4:1");
  await click(page, "Compare two models");
  await page.waitForSelector(".outline:not([hidden])");
  await keepScreenshot(page, "7-crop");
  await click(page, "Compare");
  await page.waitForFunction(() => /by both/.test(document.querySelector("#compare").textContent));
  const tags = await page.$$eval(".tag", (elements) =>
    elements.map((element) => element.textContent),
  );
  assert.deepEqual(tags, ["general-2x", "fast-2x"]);
  await checkAccessible(page, "two models");
  await keepScreenshot(page, "8-two-models");
  await click(page, "Use the right one");
  assert.equal(await page.$eval("#model", (select) => select.value), "fast-2x");
  assert.equal(await page.$eval(".job", (row) => row.dataset.state), "ready");
  await page.finish();
});

test("several images wait for their turn", async () => {
  const page = await openPage(browser, { scheme: "dark" });
  const images = Object.fromEntries(
    Array.from({ length: 4 }, (_, i) => [`noise-${i}.png`, noisePng(300, 300)]),
  );
  await give(page, images);
  await page.waitForFunction(
    () => document.querySelector("#start").textContent === "Upscale 4 images",
  );
  await click(page, "Upscale 4 images");
  await page.waitForFunction(() => document.querySelectorAll(".job[data-state=done]").length === 4);
  await give(page, { "house.png": sample });
  await page.waitForFunction(
    () =>
      document.querySelector("#start").textContent === "Upscale" &&
      !document.querySelector("#start").disabled,
  );
  await click(page, "Upscale");
  await waitForState(page, "house.png", "done");
  await sleep(300);
  await checkAccessible(page, "dark");
  await keepScreenshot(page, "9-dark");
  await page.finish();
});

test("all at once: again with new settings, one ZIP file, cancelled, cleared", async () => {
  const page = await openPage(browser);
  await page.waitForSelector("#health[data-state=ok]");
  await give(page, { "a.png": sample, "b.png": sample });
  await click(page, "Upscale 2 images");
  await waitForState(page, "a.png", "done");
  await waitForState(page, "b.png", "done");

  await click(page, "4×");
  await page.waitForFunction(
    () => document.querySelector("#start").textContent === "Upscale 2 images again",
  );
  await click(page, "Upscale 2 images again");
  const widths = () =>
    page.$$eval(".job-status", (all) => all.map((one) => one.textContent.split(" ")[0]));
  await page.waitForFunction(() =>
    [...document.querySelectorAll(".job-status")].every((one) => /^1280 ×/.test(one.textContent)),
  );
  assert.deepEqual(await widths(), ["1280", "1280"]);

  const folder = await downloadFolder(page);
  await click(page, "Download all");
  const [name, bytes] = await waitForFile(folder, ".zip");
  assert.equal(name, "upscaled.zip");
  // Another reader of ZIP files checks names, sizes and sums.
  const listing = execFileSync("python3", [
    "-c",
    "import sys,zipfile;z=zipfile.ZipFile(sys.argv[1]);assert z.testzip() is None;print(*z.namelist())",
    `${folder}/${name}`,
  ]);
  assert.equal(listing.toString().trim(), "a-1280x960.png b-1280x960.png");
  assert.ok(bytes.length > 1000);

  const refusal = await page.evaluate(async () => {
    const { zip } = await import("./zip.js");
    return zip(Array(65_536).fill({ name: "a", blob: new Blob() })).catch((error) => error.message);
  });
  assert.match(refusal, /65536 images.* 65535/);
  await page.evaluate(() => {
    Blob.prototype.stream = () => {
      throw new Error("the disk is full");
    };
  });
  await click(page, "Download all");
  await page.waitForFunction(() =>
    /Not saved: the disk is full/.test(document.querySelector("#notice").textContent),
  );

  await checkAccessible(page, "two results");
  await keepScreenshot(page, "9-all");
  await click(page, "Clear");
  await page.waitForFunction(() => document.querySelectorAll(".job").length === 0);
  await page.finish();
});

for (const [name, viewport] of [
  ["a desk", { width: 1280, height: 800 }],
  ["a phone", { width: 390, height: 844, isMobile: true, hasTouch: true, deviceScaleFactor: 2 }],
]) {
  test(`forty images on ${name}: a list that fits and tells how far it is`, async () => {
    const page = await openPage(browser, { viewport });
    const names = Array.from({ length: 40 }, (_, number) => `holiday ${number + 1}.png`);
    await give(page, Object.fromEntries(names.map((file) => [file, noisePng(40, 30)])));
    await page.waitForSelector("#start:not([disabled])");
    await click(page, "Upscale 40 images");
    await page.waitForFunction(
      () => document.querySelectorAll(".job[data-state=done]").length === 40,
    );
    assert.deepEqual(await page.$$eval(".job-name", (all) => all.map((one) => one.textContent)), names);
    assert.equal(await textOf(page, "#queue-progress"), "40 of 40 done");
    const room = await page.$eval("#options", ({ clientHeight }) => clientHeight);
    assert.ok(room >= 300, `the settings have ${room} px`);
    await checkAccessible(page, `forty results on ${name}`);
    await keepScreenshot(page, `12-forty-${name.replaceAll(" ", "-")}`);
    await page.finish();
  });
}

/** How many results the browser keeps. */
const keptResults = () =>
  new Promise((resolve) => {
    const request = indexedDB.open("upscaled", 1);
    request.onsuccess = () => {
      const count = request.result.transaction("results").objectStore("results").count();
      count.onsuccess = () => resolve(count.result);
    };
  });

async function waitForKept(page, count) {
  while ((await page.evaluate(keptResults)) !== count) await sleep(50);
}

for (const [name, server] of [["here", url], ["from another host, without TLS", remoteUrl]])
  test(`settings outlive the page, and results its reload, ${name}`, () => outlive(server));

async function outlive(server) {
  const page = await openPage(browser, { server });
  assert.equal(await page.evaluate(() => isSecureContext), server === url);
  await page.waitForSelector("#health[data-state=ok]");
  await click(page, "3×");
  await page.select("#format", "webp");
  await give(page, { "kept.png": sample });
  await click(page, "Upscale");
  await waitForState(page, "kept.png", "done");
  await waitForKept(page, 1);
  await page.reload();
  await waitForState(page, "kept.png", "done");
  assert.match(await textOf(page, ".job-status"), /^960 × 720/);
  await page.waitForFunction(() => document.querySelector("#format").value === "webp");
  const size = () => page.$eval("#sizes input:checked", (input) => input.value);
  assert.equal(await size(), "3");
  await page.waitForFunction(
    () => document.querySelector(".layer.right > img")?.naturalWidth === 960,
  );
  await click(page, "Remove kept.png");
  await waitForKept(page, 0);
  await page.goto(`${server}/#size=4&format=jpeg&quality=77&tta=on&frame=3`);
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#format").value === "jpeg");
  assert.equal(await size(), "4");
  assert.equal(await page.$eval("#quality", (input) => input.value), "77");
  assert.ok(await page.$eval("[name=tta]", (input) => input.checked));
  assert.equal(await page.$eval("#frame", (input) => input.value), "3");
  await click(page, "2×");
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#format").value === "jpeg");
  assert.equal(await size(), "2", "a change outlives the link");
  await page.finish();
}

/** Makes calls that upscale hang until they are cancelled, or fail, as `window.calls` says. */
function holdCalls(page) {
  return page.evaluateOnNewDocument(() => {
    const { fetch } = window;
    window.fetch = (target, init) => {
      const computes = init?.method === "POST" && !String(target).includes("dry_run");
      if (!computes || !window.calls) return fetch(target, init);
      if (window.calls === "fail") return Promise.resolve(new Response("", { status: 400 }));
      return new Promise((_, reject) => {
        init.signal.addEventListener("abort", () => reject(init.signal.reason));
      });
    };
  });
}

test("a result stays until another replaces it, and each image keeps one", async () => {
  const page = await openPage(browser, { prepare: holdCalls });
  await page.waitForSelector("#health[data-state=ok]");
  const images = { "a.png": sample, "b.png": sample, "c.png": sample };
  await give(page, images);
  await click(page, "Upscale 3 images");
  for (const name of Object.keys(images)) await waitForState(page, name, "done");
  await waitForKept(page, 3);

  const results = () => page.$$eval(".job[data-state=done] a[download]", (links) =>
    links.filter((link) => link.checkVisibility()).map((link) => link.download),
  );
  const first = await results();
  assert.deepEqual(first, ["a-640x480.png", "b-640x480.png", "c-640x480.png"]);
  await click(page, "3×");
  await page.evaluate(() => (window.calls = "hang"));
  await click(page, "Upscale 3 images again");
  await waitForState(page, "a.png", "sending");
  await waitForState(page, "c.png", "waiting");
  await click(page, "Cancel all");
  await page.waitForFunction(() => document.querySelectorAll(".job[data-state=done]").length === 3);
  assert.deepEqual(await results(), first);

  await page.evaluate(() => (window.calls = "fail"));
  await click(page, "Upscale 3 images again");
  await page.waitForFunction(
    () => document.querySelectorAll(".job[data-state=done] .error:not([hidden])").length === 3,
  );
  assert.deepEqual(await results(), first);
  await checkAccessible(page, "results whose second run failed");

  await page.evaluate(() => (window.calls = undefined));
  await click(page, "Upscale 3 images again");
  await page.waitForFunction(() =>
    [...document.querySelectorAll(".job-status")].every((one) => /^960 ×/.test(one.textContent)),
  );
  const second = ["a-960x720.png", "b-960x720.png", "c-960x720.png"];
  assert.deepEqual(await results(), second);
  assert.equal((await page.$$(".error:not([hidden])")).length, 0);
  await page.waitForFunction(() => {
    const event = new Event("beforeunload", { cancelable: true });
    return dispatchEvent(event); // all are kept
  });
  await page.reload();
  await waitForState(page, "c.png", "done");
  assert.deepEqual((await results()).sort(), second);
  for (const name of Object.keys(images)) await click(page, `Remove ${name}`);
  await waitForKept(page, 0);
  await page.finish();
});

test("what is removed while the browser still writes it does not come back", async () => {
  const page = await openPage(browser);
  const left = await page.evaluate(async () => {
    const { forget, keep, restore } = await import("./kept_results.js");
    const blob = new Blob(["result"]);
    const job = { keptId: "one", file: new File(["source"], "a.png"), name: "a.png", result: { blob } };
    const written = keep(job);
    await Promise.all([forget(job), written]);
    return (await restore()).length;
  });
  assert.equal(left, 0);
  await page.finish();
});

test("the page works where the browser blocks storage", async () => {
  const prepare = (page) =>
    page.evaluateOnNewDocument(() => {
      for (const name of ["sessionStorage", "localStorage", "indexedDB"]) {
        Object.defineProperty(window, name, {
          get() {
            throw new DOMException("blocked", "SecurityError");
          },
        });
      }
    });
  const page = await openPage(browser, { server: keys.url, prepare });
  await page.waitForSelector("#key-form:not([hidden])");
  await page.type("#key", keys.uploader);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#health[data-state=ok]");
  await give(page, { "house.png": sample });
  await click(page, "3×");
  await click(page, "Upscale");
  await waitForState(page, "house.png", "done");
  assert.match(await textOf(page, ".job-status"), /^960 × 720/);
  await page.finish();
});

test("a settings link opened in a tab that has the page takes effect", async () => {
  const page = await openPage(browser, { path: "/#length=1&size=4&tta=on" });
  await page.waitForSelector("#notice:not(:empty)");
  assert.match(await textOf(page, "#notice"), /asks for length=1, which/);
  const size = () => page.$eval("#sizes input:checked", (input) => input.value);
  assert.equal(await size(), "4");
  await page.evaluate(() => (location.hash = "#format=webp"));
  await page.waitForFunction(() => document.querySelector("#format").value === "webp");
  assert.equal(await size(), "2", "what a link leaves out is as on a first visit");
  assert.ok(!(await page.$eval("[name=tta]", (input) => input.checked)));
  assert.notEqual(await page.$eval("#model", (select) => select.value), "");
  assert.equal(await textOf(page, "#notice"), "");
  await page.finish();
});

test("a link carries settings, also if the page may not copy", async () => {
  const page = await openPage(browser, { server: remoteUrl });
  await page.waitForSelector("#health[data-state=ok]");
  await click(page, "8×");
  await page.$eval("#copy-link", (button) => button.click());
  await page.waitForFunction(() =>
    /address bar/.test(document.querySelector("#copy-link").textContent),
  );
  assert.match(new URL(page.url()).hash, /size=8/);
  await page.finish();
});

test("a link tells which of its settings the server does not offer", async () => {
  const path = "/#model=none&size=8&format=bmp&then=fast-2x%2Cnone";
  const page = await openPage(browser, { path });
  await page.waitForSelector("#notice:not(:empty)");
  const told = await textOf(page, "#notice");
  assert.match(told, /asks for model=none, format=bmp, then=fast-2x,none, which/);
  await checkAccessible(page, "a link in vain");
  await click(page, "4×");
  await page.waitForSelector("#notice:empty");
  await page.finish();
});

test("a result that the browser cannot keep is not left without a question", async () => {
  const page = await openPage(browser, {
    prepare: (page) =>
      page.evaluateOnNewDocument(() => {
        IDBObjectStore.prototype.put = () => {
          throw new DOMException("full", "QuotaExceededError");
        };
      }),
  });
  const asked = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.type());
    dialog.accept();
  });
  await give(page, { "lost.png": sample });
  await page.waitForSelector("#start:not([disabled])");
  await click(page, "Upscale");
  await waitForState(page, "lost.png", "done");
  await page.reload();
  assert.deepEqual(asked, ["beforeunload"]);
  await page.finish();
});

/** A JPEG of the sample that was compressed hard, with an EXIF block that names its artist. */
async function photograph() {
  const query = "scale=1&noise_level=-1&format=jpeg&quality=25";
  const answer = await fetch(`${url}/v1/upscale?${query}`, { method: "POST", body: sample });
  const jpeg = Buffer.from(await answer.arrayBuffer());
  const artist = Buffer.from("A. Photographer\0");
  const exif = Buffer.alloc(32 + artist.length);
  exif.write("Exif\0\0MM\0*", 0, "latin1");
  exif.writeUInt32BE(8, 10); // the first directory
  exif.writeUInt16BE(1, 14); // has one entry
  exif.writeUInt16BE(0x013b, 16); // Artist
  exif.writeUInt16BE(2, 18);
  exif.writeUInt32BE(artist.length, 20);
  exif.writeUInt32BE(26, 24);
  artist.copy(exif, 32);
  const head = Buffer.from([0xff, 0xe1, 0, 0]);
  head.writeUInt16BE(2 + exif.length, 2);
  return Buffer.concat([jpeg.subarray(0, 2), head, exif, jpeg.subarray(2)]);
}

test("files go as they are: metadata stays, and the noise that was chosen is shown", async () => {
  const page = await openPage(browser);
  await page.waitForSelector("#health[data-state=ok]");
  const photo = await photograph();
  await give(page, { "photo.jpg": photo, "plain.png": sample });
  await click(page, "Upscale 2 images");
  await waitForState(page, "photo.jpg", "done");
  await waitForState(page, "plain.png", "done");
  const told = await page.$$eval(".job-status", (all) => all.map((one) => one.textContent));
  assert.match(told[0], /, noise [1-3] removed$/);
  assert.match(told[1], /, no noise removed$/);
  const folder = await downloadFolder(page);
  await click(page, "Download photo.jpg");
  const [, result] = await waitForFile(folder, ".jpg");
  const direct = await fetch(`${url}/v1/upscale?scale=2&noise=auto`, { method: "POST", body: photo });
  assert.ok(result.equals(Buffer.from(await direct.arrayBuffer())));
  assert.ok(result.includes("A. Photographer"), "the EXIF block is carried on");

  await page.click(".options summary");
  const { models } = await (await fetch(`${url}/v1/models`)).json();
  const chosen = await page.$eval("#model", (select) => select.value);
  assert.deepEqual(
    await page.$$eval("#precision option", (options) => options.map((option) => option.value)),
    ["", ...models.find((model) => model.name === chosen).precisions],
  );
  await page.select("#precision", "exact");
  await page.click("[name=tta]");
  await page.waitForFunction(
    () => document.querySelector("#start").textContent === "Upscale 2 images again",
  );
  const sent = page.waitForRequest((request) => /[?&]tta=/.test(request.url()));
  await click(page, "Upscale 2 images again");
  assert.match((await sent).url(), /[?&]precision=exact/);
  await waitForState(page, "photo.jpg", "done");
  await waitForState(page, "plain.png", "done");
  await page.finish();
});

test("a chain of models: chosen one after the other, kept, carried by a link", async () => {
  const page = await openPage(browser);
  await page.waitForSelector("#health[data-state=ok]");
  const chain = () =>
    page.$$eval("#chain select", (selects) => selects.map((select) => select.value));
  await page.click(".options summary");
  await page.select("#model", "fast-2x");
  assert.deepEqual(await chain(), [""]);
  await page.select("#then-0", "general-2x");
  assert.deepEqual(await chain(), ["general-2x", ""]);
  await page.select("#then-1", "fast-2x");
  assert.deepEqual(await chain(), ["general-2x", "fast-2x", ""]);
  await page.select("#then-1", "");
  assert.deepEqual(await chain(), ["general-2x", ""]);
  // The second has noise levels that the first has not.
  assert.ok(await page.$eval("#noise", (select) => [...select.options].some((o) => o.value === "3")));
  await click(page, "4×");
  await page.select("#format", "png");
  await checkAccessible(page, "a chain");
  await give(page, { "house.png": sample });
  await click(page, "Upscale");
  await waitForState(page, "house.png", "done");
  const folder = await downloadFolder(page);
  await click(page, "Download house.png");
  const [, result] = await waitForFile(folder, ".png");
  const direct = await fetch(
    `${url}/v1/upscale?model=fast-2x,general-2x&scale=4&noise=auto&format=png`,
    { method: "POST", body: sample },
  );
  assert.equal(direct.status, 200);
  assert.ok(result.equals(Buffer.from(await direct.arrayBuffer())));
  await click(page, "Remove house.png");
  await page.goto(`${url}/#model=general-2x&then=fast-2x,gone&size=4`);
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#then-0")?.value === "fast-2x");
  assert.deepEqual(await chain(), ["fast-2x", ""], "a model that the server lacks is left out");
  await page.finish();
});

// The browser itself shows some of these, and no HEIC: the page must not turn them into PNG first.
for (const name of ["avif-plain.avif", "avif-alpha.avif", "gif-plain.gif", "gif-animation.gif", "heic-444.heic", "heic-alpha.heic"]) {
  test(`${name} is sent as it is`, async (context) => {
    const source = readFileSync(`${process.env.CODEC_FILES}/${name}`);
    const direct = await fetch(`${url}/v1/upscale?scale=2&noise=auto`, { method: "POST", body: source });
    if (direct.status === 415) return context.skip("the server is built without this format");
    assert.equal(direct.status, 200, "the file is an image that the server reads");
    const expected = Buffer.from(await direct.arrayBuffer());
    const page = await openPage(browser, {
      // Keeps the bytes of each image that the page sends.
      prepare: (fresh) =>
        fresh.evaluateOnNewDocument(() => {
          window.sent = [];
          const send = window.fetch;
          window.fetch = (target, init) => {
            if (init?.body instanceof Blob) window.sent.push(init.body);
            return send(target, init);
          };
        }),
    });
    await page.waitForSelector("#health[data-state=ok]");
    await give(page, { [name]: source });
    await page.waitForSelector("#start:not([disabled])");
    await click(page, "Upscale");
    await waitForState(page, name, "done");
    const sent = await page.evaluate(() =>
      Promise.all(window.sent.map(async (blob) => [...new Uint8Array(await blob.arrayBuffer())])),
    );
    assert.ok(sent.length > 0);
    for (const bytes of sent) assert.ok(source.equals(Buffer.from(bytes)), "its bytes are the file's");
    const folder = await downloadFolder(page);
    await click(page, `Download ${name}`);
    const [, result] = await waitForFile(folder, name.startsWith("avif") ? ".avif" : ".png");
    assert.ok(result.equals(expected), "the result is the file's");
    await page.finish();
  });
}

/** Drops a folder of the disk onto the page. */
async function dropFolder(page, folder) {
  const session = await page.createCDPSession();
  const box = await (await page.$("#drop")).boundingBox();
  const data = { items: [], files: [folder], dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"]) {
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    await session.send("Input.dispatchDragEvent", { type, x, y, data });
  }
}

test("a dropped folder gives its images, those of folders in it too", async () => {
  const page = await openPage(browser);
  const folder = mkdtempSync(`${tmpdir()}/upscaled-folder-`);
  mkdirSync(`${folder}/empty`);
  await dropFolder(page, `${folder}/empty`);
  await page.waitForFunction(() => /no files/.test(document.querySelector("#notice").textContent));
  mkdirSync(`${folder}/holiday/inner`, { recursive: true });
  for (const name of ["a.png", "inner/b.png", ".hidden.png"])
    writeFileSync(`${folder}/holiday/${name}`, sample);
  await dropFolder(page, `${folder}/holiday`);
  await page.waitForFunction(() => document.querySelectorAll(".job").length === 2);
  assert.equal(await textOf(page, "#notice"), "");
  const names = await page.$$eval(".job-name", (all) => all.map((one) => one.textContent).sort());
  assert.deepEqual(names, ["a.png", "b.png"]);
  await page.finish();
});

test("who leaves while images are computed is asked; who leaves later is not", async () => {
  const page = await openPage(browser);
  const asked = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.type());
    dialog.accept();
  });
  await give(page, { "noise.png": noisePng(1400, 1400) });
  await page.waitForSelector("#start:not([disabled])");
  await click(page, "8×");
  await click(page, "Upscale");
  await page.waitForFunction(() =>
    /Computing, [1-9]/.test(document.querySelector(".job-status").textContent),
  );
  await page.reload();
  assert.deepEqual(asked, ["beforeunload"]);
  await page.waitForSelector("#health[data-state=ok]");
  await click(page, "2×");
  await page.reload();
  assert.deepEqual(asked, ["beforeunload"]);
  await page.finish();
});

test("errors advise what helps", async () => {
  const page = await openPage(browser);
  await give(page, { "cut.png": sample.subarray(0, 50), "notes.txt": "no image" });
  await page.waitForSelector(".job .error:not([hidden])");
  await click(page, "Upscale"); // what the cut file lacks is behind its header
  await page.waitForFunction(
    () => document.querySelectorAll(".job .error:not([hidden])").length === 2,
  );
  const advice = await page.$$eval(".job .advice", (all) => all.map((one) => one.textContent));
  assert.match(advice[0], /copy or download it again/);
  assert.match(advice[1], /Save it as PNG, JPEG or WebP/);
  assert.doesNotMatch(await textOf(page, "#jobs"), /curl/);
  await page.finish();
});

test("a damaged file of any format is not to be saved as another one", async () => {
  const { output_formats: formats } = await (await fetch(`${url}/v1/info`)).json();
  const files = {};
  for (const format of formats) {
    const answer = await fetch(`${url}/v1/upscale?format=${format}`, { method: "POST", body: sample });
    const whole = Buffer.from(await answer.arrayBuffer());
    files[`cut.${format}`] = whole.subarray(0, 0.6 * whole.length);
  }
  const middle = sample.length >> 1;
  files["changed.png"] = Buffer.from(sample).fill(7, middle, middle + 60);
  files["doc.pdf"] = "%PDF-1.7\n";
  const page = await openPage(browser);
  await give(page, files);
  await page.waitForSelector("#start:not([disabled])");
  await page.$eval("#start", (button) => button.click()); // its text counts images, fewer with each verdict
  const count = Object.keys(files).length;
  await page.waitForFunction(
    (wanted) => document.querySelectorAll(".job .error:not([hidden])").length === wanted,
    {},
    count,
  );
  const rows = await page.$$eval(".job", (all) =>
    all.map((row) => [
      row.querySelector(".job-name").textContent,
      row.querySelector(".advice").textContent,
    ]),
  );
  for (const [name, advice] of rows) {
    const wanted = name === "doc.pdf" ? /Save it as PNG/ : /copy or download it again/;
    assert.match(advice, wanted, name);
  }
  assert.equal(rows.length, count);
  await page.finish();
});

test("a warning of the server is shown with its image", async () => {
  const prepare = (opened) =>
    opened.evaluateOnNewDocument(() => {
      const ask = window.fetch;
      window.fetch = async (...args) => {
        const answer = await ask(...args);
        if (!String(args[0]).includes("/v1/upscale")) return answer;
        const headers = new Headers(answer.headers);
        headers.set("upscale-warning", '"alpha is dropped", "a profile, too"');
        return new Response(answer.body, { status: answer.status, headers });
      };
    });
  const page = await openPage(browser, { prepare });
  await page.waitForSelector("#health[data-state=ok]");
  await give(page, { "house.png": sample });
  await click(page, "Upscale");
  await waitForState(page, "house.png", "done");
  const warnings = await page.$$eval(".warnings li", (all) => all.map((one) => one.textContent));
  assert.deepEqual(warnings, ["alpha is dropped", "a profile, too"]);
  await page.finish();
});

test("a phone: touch, pinch, no sideways scrolling", async () => {
  const viewport = {
    width: 390,
    height: 844,
    deviceScaleFactor: 2,
    isMobile: true,
    hasTouch: true,
  };
  const page = await openPage(browser, { viewport });
  await page.waitForSelector("#health[data-state=ok]");
  await checkAccessible(page, "an empty phone");
  await keepScreenshot(page, "10-phone-empty");
  await give(page, { "house.png": sample });
  await tap(page, "#start:not([disabled])");
  await waitForState(page, "house.png", "done");
  await page.waitForFunction(
    () => document.querySelector(".layer.right > img")?.naturalWidth === 640,
  );
  await sleep(300);
  await checkAccessible(page, "a phone");
  await keepScreenshot(page, "11-phone");

  const before = (await look(page)).width;
  const box = await (await page.$(".stage")).boundingBox();
  const y = box.y + box.height / 2;
  const session = await page.createCDPSession();
  const fingers = (type, ...xs) =>
    session.send("Input.dispatchTouchEvent", {
      type,
      touchPoints: xs.map((x, id) => ({ x, y: y + 60, id })),
    });
  await fingers("touchStart", 175, 215);
  for (let spread = 30; spread <= 90; spread += 10)
    await fingers("touchMove", 195 - spread, 195 + spread);
  await fingers("touchEnd");
  assert.ok((await look(page)).width > 2 * before, `${before} -> ${(await look(page)).width}`);
  await page.finish();
});

test("a key is asked for, kept in the session and sent", async () => {
  let seen;
  const prepare = async (page) => {
    await page.setRequestInterception(true);
    page.on("request", (request) => {
      const key = request.headers().authorization;
      if (!request.url().includes("/v1/")) return request.continue();
      seen = key ?? seen;
      if (key) return request.continue();
      const body = JSON.stringify({
        status: 401,
        title: "Unauthorized",
        detail: "this server wants a key",
      });
      return request.respond({ status: 401, contentType: "application/problem+json", body });
    });
  };
  const page = await openPage(browser, { prepare });
  await page.waitForSelector("#key-form:not([hidden])");
  await checkAccessible(page, "a key is wanted");
  await page.type("#key", "s3cret");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#health[data-state=ok]");
  assert.equal(seen, "Bearer s3cret");
  assert.deepEqual(
    await page.evaluate(() => [sessionStorage.length, localStorage.length, document.cookie]),
    [1, 0, ""],
  );
  await page.finish();
});

test("a server with keys: none, a wrong one, one that may not, the right one", async () => {
  const page = await openPage(browser, { server: keys.url });
  const typeKey = async (key) => {
    await page.waitForSelector("#key-form:not([hidden])");
    await page.type("#key", key);
    await page.keyboard.press("Enter");
  };
  const waitForLabel = (text) =>
    page.waitForFunction(
      (wanted) => document.querySelector("#key-label").textContent.includes(wanted),
      {},
      text,
    );
  await page.waitForSelector("#key-form:not([hidden])");
  await waitForLabel("This server wants a key");
  await typeKey("upk_not-a-key-of-this-server");
  await waitForLabel("The server refuses this key: the API key or token is not valid.");
  assert.equal(await page.evaluate(() => sessionStorage.length), 0, "a wrong key is not kept");
  await checkAccessible(page, "a key was refused");
  await keepScreenshot(page, "key-refused");

  await typeKey(keys.reader);
  await page.waitForSelector("#health[data-state=ok]");
  await page.waitForSelector("#key-form", { hidden: true });
  await give(page, { "house.png": sample });
  await waitForLabel('lacks the role "upscale"');

  await typeKey(keys.uploader);
  await page.waitForSelector("#key-form", { hidden: true });
  await page.waitForFunction(() =>
    /320 × 240 → 640 × 480/.test(document.querySelector(".job-status").textContent),
  );
  await click(page, "Upscale");
  await waitForState(page, "house.png", "done");
  await page.waitForFunction(
    () => document.querySelector(".layer.right > img")?.naturalWidth === 640,
  );
  await page.finish();
});

test("the page allows itself nothing that it does not need", async () => {
  const answer = await fetch(url + "/");
  const policy = answer.headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
  const html = await answer.text();
  assert.doesNotMatch(html, /<script>|style=|\son[a-z]+=|https?:\/\//);
});
