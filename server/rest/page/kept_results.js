// Finished images of this tab, so that loading the page again loses none (IndexedDB, which pages
// without TLS have, too). They are gone with the tab's session; what sessions have left behind goes
// after a day.

import { newRequestId } from "./upscaled.js";

const DATABASE = "upscaled";
const STORE = "results";
const SESSION_ITEM = "upscaled-session";
const MAX_BYTES = 1 << 29; // of all that is kept
const MAX_AGE_MS = 24 * 3600 * 1000;
const FIELDS = ["width", "height", "seconds"];

function session() {
  const id = sessionStorage.getItem(SESSION_ITEM) ?? newRequestId();
  sessionStorage.setItem(SESSION_ITEM, id);
  return id;
}

/** The value of a request of IndexedDB. */
function outcome(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

let database;

/** Begins a transaction: its store, and a promise of its end. */
async function begin(mode) {
  if (!database) {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    database = outcome(request);
  }
  const transaction = (await database).transaction(STORE, mode);
  const ended = new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error);
  });
  return { store: transaction.objectStore(STORE), ended };
}

async function records() {
  const { store } = await begin("readonly");
  return outcome(store.getAll());
}

/** Keeps the source and the result of a job that is done. False: there is no room. */
export async function keep(job) {
  const { file, name, model, noiseLevel, frames, options, warnings, result, requestId: id } = job;
  const bytes = file.size + result.blob.size;
  const used = (await records()).reduce((sum, record) => sum + record.bytes, 0);
  if (used + bytes > MAX_BYTES) return false;
  const about = { name, model, noiseLevel, frames, options, warnings };
  for (const field of FIELDS) about[field] = result[field];
  const { store, ended } = await begin("readwrite");
  store.put({ id, session: session(), at: Date.now(), bytes, about, file, blob: result.blob });
  await ended;
  return true;
}

export async function forget(job) {
  if (!job.requestId) return;
  const { store, ended } = await begin("readwrite");
  store.delete(job.requestId);
  await ended;
}

/** The jobs that this session has kept, oldest first: {id, about, file, blob}. Removes old ones. */
export async function restore() {
  const found = await records();
  const own = found.filter((record) => record.session === session());
  const { store, ended } = await begin("readwrite");
  for (const { id, at, session: owner } of found) {
    if (owner !== session() && Date.now() - at >= MAX_AGE_MS) store.delete(id);
  }
  await ended;
  return own.sort((a, b) => a.at - b.at);
}
