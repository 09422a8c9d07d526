// Signed URLs of upscaled's GET /v1/upscale, for <img src>. For servers in Node: a key that signs is
// no page's to know. sign.d.ts describes what is exported.

import { createHmac } from "node:crypto";
import { queryOf } from "./upscaled.js";

const MIN_SECRET_CHARACTERS = 32;
// The server refuses other characters in the URL of a source.
const SOURCE = /^https?:\/\/(?:[!#$&-;=?@A-Z[\]_a-z~]|%[0-9A-Fa-f]{2})+$/i;

/**
 * The URL of the image at `source`, upscaled with `options`, where browsers ask for it: at `server`,
 * which is upscaled or a cache in front of it.
 */
export function signUrl(server, source, { key, expiresIn, ...options }) {
  const colon = String(key).indexOf(":");
  const [id, secret] = [String(key).slice(0, Math.max(colon, 0)), String(key).slice(colon + 1)];
  if (!id || secret.length < MIN_SECRET_CHARACTERS)
    throw new TypeError("key must be ID:SECRET, as `upscaled keys url` writes it");
  if (!SOURCE.test(String(source))) {
    throw new TypeError(
      `source is ${source}; it must be a whole http:// or https:// URL whose other characters are ` +
        "percent-encoded (hosts: in punycode)",
    );
  }
  if (expiresIn !== undefined && !Number.isFinite(expiresIn))
    throw new TypeError(`expiresIn is ${expiresIn}; it must be a number of seconds`);
  const expires =
    expiresIn === undefined ? "" : `&expires=${Math.floor(Date.now() / 1000 + expiresIn)}`;
  const query = queryOf({ url: String(source), ...options });
  const target = `/v1/upscale?${query}&key=${id}${expires}`;
  const signature = createHmac("sha256", secret).update(target).digest("base64url");
  return `${String(server).replace(/\/+$/, "")}${target}&sig=${signature}`;
}
