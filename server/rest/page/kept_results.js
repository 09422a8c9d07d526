// Finished images of this tab, so that loading the page again loses none (IndexedDB, which pages
// without TLS have, too). They are gone with the tab's session; what sessions have left behind goes
// after a day.

import { store, stored } from "./storage.js";
import { newRequestId } from "./upscaled.js";

const DATABASE = "upscaled";
const RECORDS = "results";
const SESSION_ITEM = "upscaled-session";
const MAX_BYTES = 1 << 29; // of all that is kept
const MAX_AGE_MS = 24 * 3600 * 1000;
const FIELDS = ["width", "height", "seconds"];

function session() {
  const id = stored("sessionStorage", SESSION_ITEM) ?? newRequestId();
  store("sessionStorage", SESSION_ITEM, id);
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
    request.onupgradeneeded = () => request.result.createObjectStore(RECORDS, { keyPath: "id" });
    database = outcome(request);
  }
  const transaction = (await database).transaction(RECORDS, mode);
  const ended = new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error);
  });
  return { records: transaction.objectStore(RECORDS), ended };
}

async function allRecords() {
  const { records } = await begin("readonly");
  return outcome(records.getAll());
}

let last = Promise.resolve();

/** Changes the records one after the other: what is removed while it is written is gone. */
function inTurn(change) {
  const turn = last.then(change);
  last = turn.catch(() => {});
  return turn;
}

/**
 * Keeps the source and the result of a job that is done, in place of its earlier result. False: there
 * is no room.
 */
export function keep(job) {
  return inTurn(() => write(job));
}

async function write(job) {
  const { file, name, model, noiseLevel, frames, options, warnings, result, keptId: id } = job;
  const bytes = file.size + result.blob.size;
  const others = (await allRecords()).filter((record) => record.id !== id);
  const used = others.reduce((sum, record) => sum + record.bytes, 0);
  if (used + bytes > MAX_BYTES) return false;
  const about = { name, model, noiseLevel, frames, options, warnings };
  for (const field of FIELDS) about[field] = result[field];
  const { records, ended } = await begin("readwrite");
  records.put({ id, session: session(), at: Date.now(), bytes, about, file, blob: result.blob });
  await ended;
  return true;
}

export function forget({ keptId }) {
  return inTurn(async () => {
    const { records, ended } = await begin("readwrite");
    records.delete(keptId);
    await ended;
  });
}

/** The jobs that this session has kept, oldest first: {id, about, file, blob}. Removes old ones. */
export async function restore() {
  const found = await allRecords();
  const own = found.filter((record) => record.session === session());
  const { records, ended } = await begin("readwrite");
  for (const { id, at, session: owner } of found) {
    if (owner !== session() && Date.now() - at >= MAX_AGE_MS) records.delete(id);
  }
  await ended;
  return own.sort((a, b) => a.at - b.at);
}
