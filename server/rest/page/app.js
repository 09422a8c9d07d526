// The page: connects the server, the settings, the images and the viewer.

import { UnauthorizedError, UpscaledClient } from "./upscaled.js";
import { Comparison } from "./compare.js";
import { byId, element, formatBytes, formatPixels } from "./dom.js";
import { droppedFiles } from "./dropped_files.js";
import { Health } from "./health.js";
import { forget, keep, restore } from "./kept_results.js";
import { OptionsPanel } from "./options.js";
import { Preview } from "./preview.js";
import { Job, Queue } from "./queue.js";
import { QueueView, resultName } from "./queue_view.js";
import { store, stored } from "./storage.js";
import { Viewer } from "./viewer.js";
import { zip } from "./zip.js";

const KEY_ITEM = "upscaled-key"; // in the session's storage alone
const ASK_AFTER_MS = 250;

let client = makeClient();
let selected;
const queue = new Queue(client, onJobChanged, onJobEnded);
const options = new OptionsPanel(() => {
  tell("");
  askVerdicts();
  render();
}, tell);
const viewer = new Viewer(byId("viewer"));
const preview = new Preview(viewer);
const queueView = new QueueView({
  select,
  start: (job) => start([job]),
  cancel: (job) => {
    queue.cancel(job);
    askVerdicts();
  },
  remove,
});
const health = new Health(loadServer);
const comparison = new Comparison(byId("compare"), viewer, {
  client: () => client,
  options: () => options.get(),
  choose(model, noiseLevel) {
    options.setModel(model, noiseLevel);
    askVerdicts();
  },
  closed() {
    preview.forget();
    render();
  },
});

const compareButton = element("button", { type: "button", textContent: "Compare two models" });
compareButton.addEventListener("click", () => {
  comparison.start(selected, options.variants());
  render();
});
const download = element("a", { className: "button", textContent: "Download", hidden: true });
viewer.actions.append(compareButton, download);

function makeClient() {
  return new UpscaledClient(".", { apiKey: stored("sessionStorage", KEY_ITEM) });
}

async function loadServer() {
  try {
    const [models, info] = await Promise.all([client.models(), client.info()]);
    options.setServer(models, info);
    byId("key-form").hidden = true;
    const { max_source_bytes: bytes, max_source_pixels: pixels } = info.limits;
    byId("drop-limits").textContent =
      `Images or folders of them, up to ${formatBytes(bytes)} and ${formatPixels(pixels)}`;
    return { models, info };
  } catch (error) {
    // 429: a wrong key after many others.
    if (error instanceof UnauthorizedError || error.status === 429) askKey(error);
    throw error;
  }
}

/** Asks for a key, or for another one where the one that there is was refused. */
function askKey(error) {
  const form = byId("key-form");
  if (stored("sessionStorage", KEY_ITEM) !== undefined) {
    byId("key-label").textContent = `The server refuses this key: ${error.message}.`;
    if (error.status === 401) setKey(); // not to be counted as a wrong one again and again
  } else if (form.hidden) {
    byId("key-label").textContent = "This server wants a key";
  }
  if (!form.hidden) return;
  form.hidden = false;
  byId("key").focus();
}

function setKey(key) {
  store("sessionStorage", KEY_ITEM, key || undefined);
  client = makeClient();
  queue.setClient(client);
}

/** Shows a sentence above the list of the images, until the next one. */
function tell(sentence) {
  byId("notice").textContent = sentence;
}

function addFiles(files) {
  const jobs = queue.add([...files]);
  if (!jobs.length) return;
  tell("");
  comparison.close();
  select(jobs.find((job) => job.file.type.startsWith("image/")) ?? jobs[0]);
  askVerdicts();
}

async function addDropped(transfer) {
  const hasFiles = transfer.types.includes("Files"); // the list is gone with the event
  try {
    const files = await droppedFiles(transfer);
    if (hasFiles && !files.length) tell("There are no files in the folder.");
    addFiles(files);
  } catch (error) {
    tell(`The folder cannot be read: ${error.message}`);
  }
}

function select(job) {
  selected = job;
  comparison.close();
  render();
}

function remove(job) {
  const at = queue.jobs.indexOf(job);
  queue.remove(job);
  forget(job).catch(() => {});
  if (job === selected) select(queue.jobs[Math.min(at, queue.jobs.length - 1)]);
  render();
}

function start(jobs) {
  comparison.close();
  queue.start(jobs, options.get());
  render();
}

/** Saves all results as one ZIP file. */
async function downloadAll() {
  const done = queue.jobs.filter((job) => job.result);
  const button = byId("download-all");
  button.disabled = true;
  tell("");
  try {
    const files = done.map((job) => ({ name: resultName(job), blob: job.result.blob }));
    const url = URL.createObjectURL(await zip(files));
    element("a", { href: url, download: "upscaled.zip" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (error) {
    tell(`Not saved: ${error.message}.`);
  } finally {
    button.disabled = false;
  }
}

function clear() {
  for (const job of queue.jobs.filter((job) => !job.running && job.state !== "waiting")) remove(job);
}

/** Whether a job that is done was started with other settings than those of now. */
function isOutdated(job) {
  return job.state === "done" && JSON.stringify(job.options) !== JSON.stringify(options.get());
}

/**
 * The jobs that the large button starts: the new ones; else those of other settings; else the
 * selected one, once more.
 */
function startable() {
  const fresh = queue.jobs.filter(
    (job) => ["ready", "cancelled"].includes(job.state) && !job.error,
  );
  if (fresh.length) return fresh;
  const outdated = queue.jobs.filter((job) => job.options && isOutdated(job));
  if (outdated.length) return outdated;
  return selected && ["done", "failed"].includes(selected.state) ? [selected] : [];
}

let asking = new AbortController();

/**
 * Asks, a moment after the last change, what the server would do with each image that waits for a
 * start.
 */
async function askVerdicts() {
  asking.abort();
  const { signal } = (asking = new AbortController());
  await new Promise((resolve) => setTimeout(resolve, ASK_AFTER_MS));
  for (const job of queue.jobs) {
    if (signal.aborted) return;
    if (["ready", "cancelled"].includes(job.state)) {
      await job.ask(client, options.get(), signal);
      if (job.error instanceof UnauthorizedError && !signal.aborted) askKey(job.error);
    }
    render();
  }
}

function onJobChanged(job) {
  if (job.error instanceof UnauthorizedError) askKey(job.error);
  render();
}

function onJobEnded(job, end) {
  if (end === "done") keepResult(job);
  byId("announcer").textContent = `${job.name}: ${end}`;
}

/** A result that the browser does not keep is lost with the page, which asks before it is left. */
async function keepResult(job) {
  const { result } = job;
  const kept = await keep(job).catch(() => false);
  if (job.result === result) job.kept = kept;
}

/** "12 of 40 done, 1 failed"; of one image its own row tells. */
function progressOfAll() {
  if (queue.jobs.length < 2) return "";
  const failed = queue.count("failed");
  return `${queue.count("done")} of ${queue.jobs.length} done${failed ? `, ${failed} failed` : ""}`;
}

let rendering = false;

/** Shows everything anew with the next frame. */
function render() {
  if (rendering) return;
  rendering = true;
  requestAnimationFrame(() => {
    rendering = false;
    queueView.update(queue.jobs, selected);
    health.setWork(queue.count("sending", "computing"), queue.count("waiting"));
    renderStart();
    renderActions();
    byId("viewer").hidden = !selected;
    byId("drop").hidden = Boolean(selected);
    if (selected && !comparison.open) preview.update(selected);
    compareButton.hidden = comparison.open || !selected?.source;
    download.hidden = comparison.open || selected?.state !== "done";
    if (selected?.result)
      [download.href, download.download] = [selected.result.url, resultName(selected)];
  });
}

function renderStart() {
  const jobs = startable();
  const again = jobs.length > 0 && !["ready", "cancelled"].includes(jobs[0].state);
  byId("start").disabled = !jobs.length;
  byId("start").classList.toggle("primary", !again);
  const what = jobs.length > 1 ? ` ${jobs.length} images` : "";
  byId("start").textContent = again ? `Upscale${what} again` : `Upscale${what}`;
}

function renderActions() {
  const active = queue.count("waiting", "sending", "computing");
  byId("queue-actions").hidden = queue.jobs.length < 2;
  byId("queue-progress").textContent = progressOfAll();
  byId("download-all").hidden = queue.count("done") < 2;
  byId("cancel-all").hidden = active === 0;
  byId("clear").hidden = queue.jobs.length === active;
}

/** Shows what an earlier visit has finished. */
async function restoreResults() {
  queue.restore((await restore()).map(Job.kept));
  selected ??= queue.jobs[0];
  render();
}

function listen() {
  byId("start").addEventListener("click", () => start(startable()));
  byId("files").addEventListener("change", (event) => {
    addFiles(event.target.files);
    event.target.value = "";
  });
  document.addEventListener("paste", (event) => addFiles(event.clipboardData?.files ?? []));
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  for (const name of ["dragleave", "drop", "dragend"]) {
    document.addEventListener(name, (event) => {
      if (name !== "dragleave" || !event.relatedTarget) document.body.classList.remove("dragging");
    });
  }
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    addDropped(event.dataTransfer);
  });
  byId("download-all").addEventListener("click", downloadAll);
  byId("cancel-all").addEventListener("click", () => {
    queue.cancelAll();
    askVerdicts();
  });
  byId("clear").addEventListener("click", clear);
  window.addEventListener("beforeunload", (event) => {
    const unkept = queue.jobs.some((job) => job.state === "done" && !job.kept);
    if (unkept || queue.count("waiting", "sending", "computing")) event.preventDefault();
  });
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setKey(byId("key").value.trim());
    byId("key").value = "";
    health.refresh();
    askVerdicts();
  });
}

listen();
render();
restoreResults().catch(() => {}); // the page works without them
health.refresh();
