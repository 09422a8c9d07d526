// Human-readable errors: what happened, which value passed which limit, and what to do
// about it.

import * as upscaled from "./upscaled.js";

// Refusals of whole files, which another program may read and save as what the server reads.
const ANOTHER_KIND = /\bnot an? .* image\b|takes longer/;

const TELLERS = [
  [upscaled.LimitExceededError, "Too large", () => "Choose a smaller image or a smaller size."],
  [
    upscaled.InvalidImageError,
    "The server cannot read this image",
    ({ reason, message }) =>
      reason === "INVALID_IMAGE" && !ANOTHER_KIND.test(message)
        ? "The file is incomplete or damaged: copy or download it again."
        : "Save it as PNG, JPEG or WebP and try again.",
  ],
  [
    upscaled.UnknownModelError,
    "The model cannot do that",
    () => "Choose another model or noise level.",
  ],
  [
    upscaled.InvalidOptionError,
    "A setting does not fit",
    () => "Change the settings and try again.",
  ],
  [upscaled.UnauthorizedError, "The server wants a key", () => "Enter it above and try again."],
  [
    upscaled.BusyError,
    "The server is busy",
    (error) => `Try again in ${Math.ceil(error.retryAfter ?? 5)} s.`,
  ],
  [
    upscaled.TimedOutError,
    "It took too long",
    () => "Look at the connection, or try a smaller image.",
  ],
  [
    upscaled.ServerError,
    "The server failed",
    () => "Try again; if it fails again, tell whoever runs the server.",
  ],
  [
    upscaled.ConnectionError,
    "The connection was lost",
    () => "See whether the server runs, and try again.",
  ],
];

/** {title, detail, advice}. */
export function explain(error) {
  const [, title, advice] = TELLERS.find(([Class]) => error instanceof Class) ?? [
    ,
    "It failed",
    () => "Try again.",
  ];
  let message = error.message;
  if (error.value && error.maximum && !message.includes(error.maximum)) {
    message += ` (${error.value}; the limit is ${error.maximum})`;
  }
  return { title, detail: message, advice: advice(error) };
}
