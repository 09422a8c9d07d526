// PNG files of noise, and the size of one.

import { randomBytes } from "node:crypto";
import { deflateSync } from "node:zlib";

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; ++bit) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

/** CRC-32 of all bytes. */
export function crc32OfChunks(chunks) {
  let crc = ~0;
  for (const chunk of chunks)
    for (const byte of chunk) crc = TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

function chunk(kind, data) {
  const body = Buffer.concat([Buffer.from(kind, "latin1"), data]);
  const [length, crc] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  crc.writeUInt32BE(crc32OfChunks([body]));
  return Buffer.concat([length, body, crc]);
}

/**
 * RGB noise, stored without compression. `claimedHeight`: what the header says instead of the
 * truth.
 */
export function noisePng(width, height, { claimedHeight = height } = {}) {
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0]);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(claimedHeight, 4);
  const rows = randomBytes((3 * width + 1) * height);
  for (let y = 0; y < height; ++y) rows[y * (3 * width + 1)] = 0;
  const signature = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
  return Buffer.concat([
    signature,
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows, { level: 0 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/** {width, height} of a PNG that is whole. */
export function sizeOfPng(bytes) {
  const file = Buffer.from(bytes);
  if (
    file.toString("latin1", 1, 4) !== "PNG" ||
    file.toString("latin1", file.length - 8, file.length - 4) !== "IEND"
  ) {
    throw new Error(`no whole PNG of ${file.length} bytes`);
  }
  return { width: file.readUInt32BE(16), height: file.readUInt32BE(20) };
}
