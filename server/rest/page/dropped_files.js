// Files out of a drop, those of folders included.

async function filesOf(entry) {
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const files = [];
  for (;;) {
    // At most 100 entries at a time.
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return files;
    for (const inner of entries) files.push(...(await filesOf(inner)));
  }
}

/** All files of a DataTransfer, in order; those of folders in the folders' order, hidden ones left out. */
export async function droppedFiles(transfer) {
  // The list of items is gone with the event: entries are asked for at once.
  const entries = [...transfer.items]
    .filter((item) => item.kind === "file")
    .map((item) => item.webkitGetAsEntry?.() ?? null);
  if (!entries.some((entry) => entry?.isDirectory)) return [...transfer.files];
  const files = [];
  for (const entry of entries) if (entry) files.push(...(await filesOf(entry)));
  return files.filter((file) => !file.name.startsWith("."));
}
