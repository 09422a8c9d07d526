// A ZIP file of blobs that are compressed already: stored, streamed by the browser, never held twice.

const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const UTF8_NAMES = 0x0800;
const MAX_BYTES = 0xffffffff; // without ZIP64
const MAX_FILES = 0xffff;

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; ++bit) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  return crc;
});

async function crc32(blob) {
  let crc = 0xffffffff;
  const reader = blob.stream().getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return ~crc >>> 0;
    for (const byte of value) crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  }
}

/** Bytes of [size, value] fields, little endian. */
function fields(...list) {
  const bytes = new Uint8Array(list.reduce((sum, [size]) => sum + size, 0));
  let at = 0;
  for (const [size, value] of list) {
    for (let i = 0; i < size; ++i) bytes[at++] = (value >>> (8 * i)) & 0xff;
  }
  return bytes;
}

/** MS-DOS's date and time, in steps of two seconds. */
function dosTime(date) {
  const time = (date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1);
  const day = ((date.getFullYear() - 1980) << 9) | ((date.getMonth() + 1) << 5) | date.getDate();
  return (((day << 16) >>> 0) | time) >>> 0;
}

/** Names that differ: a second "a.png" becomes "a (2).png". */
function distinct(names) {
  const seen = new Set();
  return names.map((name) => {
    const dot = name.lastIndexOf(".") > 0 ? name.lastIndexOf(".") : name.length;
    let candidate = name;
    for (let count = 2; seen.has(candidate); ++count) {
      candidate = `${name.slice(0, dot)} (${count})${name.slice(dot)}`;
    }
    seen.add(candidate);
    return candidate;
  });
}

/**
 * A Blob with the ZIP file of `files`, each {name, blob}. Throws a RangeError beyond 4 GiB or 65,535
 * files.
 */
export async function zip(files, date = new Date()) {
  if (files.length > MAX_FILES)
    throw new RangeError(`there are ${files.length} images; a ZIP file holds ${MAX_FILES}`);
  const names = distinct(files.map((file) => file.name));
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const [i, { blob }] of files.entries()) {
    const name = new TextEncoder().encode(names[i]);
    const common = [
      [2, 20],
      [2, UTF8_NAMES],
      [2, 0],
      [4, dosTime(date)],
      [4, await crc32(blob)],
      [4, blob.size],
      [4, blob.size],
      [2, name.length],
      [2, 0],
    ];
    const head = fields([4, LOCAL], ...common);
    parts.push(head, name, blob);
    const rest = [[2, 0], [2, 0], [2, 0], [4, 0], [4, offset]];
    directory.push(fields([4, CENTRAL], [2, 20], ...common, ...rest), name);
    offset += head.length + name.length + blob.size;
    if (offset > MAX_BYTES) throw new RangeError("the images have more than 4 GiB together");
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const count = files.length;
  const end = fields([4, END], [2, 0], [2, 0], [2, count], [2, count], [4, size], [4, offset], [2, 0]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}
