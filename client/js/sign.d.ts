import type { CallOptions, UpscaleOptions } from "./upscaled.js";

export interface SignOptions extends Omit<UpscaleOptions, keyof CallOptions | "onProgress"> {
  /** ID:SECRET, as `upscaled keys url` writes it. */
  key: string;
  /** Seconds until the URL ends; without it, it lasts as long as its key. */
  expiresIn?: number;
}

/** A URL for `<img src>`. Throws a TypeError for what is no key. */
export function signUrl(server: string | URL, source: string | URL, options: SignOptions): string;
