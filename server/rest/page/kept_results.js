// Finished images of this tab, so that loading the page again loses none (Cache API). They are gone
// with the tab's session; what sessions have left behind goes after a day.

import { newRequestId } from "./upscaled.js";

const CACHE = "upscaled-results";
const SESSION_ITEM = "upscaled-session";
const MAX_BYTES = 1 << 29; // of all that this page's host keeps in the browser
const MAX_AGE_MS = 24 * 3600 * 1000;
const PARTS = ["source", "result", "about"]; // written in this order: `about` makes it whole
const FIELDS = ["width", "height", "seconds"];

function session() {
  const id = sessionStorage.getItem(SESSION_ITEM) ?? newRequestId();
  sessionStorage.setItem(SESSION_ITEM, id);
  return id;
}

const path = (id, part) => `kept/${session()}/${id}/${part}`;

/** null where the browser has no cache for this page: without TLS, from another host. */
async function open() {
  return globalThis.caches ? caches.open(CACHE) : null;
}

/** Keeps the source and the result of a job that is done. */
export async function keep(job) {
  const cache = await open();
  const used = (await navigator.storage?.estimate?.())?.usage ?? 0;
  if (!cache || used + job.file.size + job.result.blob.size > MAX_BYTES) return;
  const { name, model, noiseLevel, options, warnings, result, requestId } = job;
  const about = { name, model, noiseLevel, options, warnings, type: job.file.type, at: Date.now() };
  for (const field of FIELDS) about[field] = result[field];
  const bodies = [job.file, result.blob, JSON.stringify(about)];
  for (const [i, part] of PARTS.entries()) {
    await cache.put(path(requestId, part), new Response(bodies[i]));
  }
}

export async function forget(job) {
  const cache = await open();
  if (!cache || !job.requestId) return;
  for (const part of PARTS) await cache.delete(path(job.requestId, part));
}

/** The jobs that this session has kept, oldest first: {id, about, file, blob}. Removes old ones. */
export async function restore() {
  const cache = await open();
  const found = [];
  for (const { url } of (await cache?.keys()) ?? []) {
    const [, folder, owner, id] = /^(.*\/kept\/([^/]+)\/([^/]+)\/)about$/.exec(url) ?? [];
    if (!id) continue;
    const [source, result, text] = await Promise.all(
      PARTS.map((part) => cache.match(folder + part)),
    );
    const about = await text.json();
    if (owner !== session()) {
      if (Date.now() - about.at < MAX_AGE_MS) continue;
      for (const part of PARTS) await cache.delete(folder + part);
      continue;
    }
    if (!source || !result) continue;
    const file = new File([await source.blob()], about.name, { type: about.type });
    const blob = await result.blob();
    found.push({ id, about, file, blob: new Blob([blob], { type: result.headers.get("content-type") ?? "" }) });
  }
  return found.sort((a, b) => a.about.at - b.about.at);
}
