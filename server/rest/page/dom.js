// Small helpers for elements and for numbers that people read.

/** An element with properties (attributes where it has no such property) and children. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Fills a select with [value, label] pairs and keeps its value where it is still on offer. */
export function fillSelect(select, pairs) {
  const { value } = select;
  select.replaceChildren(
    ...pairs.map(([key, label]) => element("option", { value: key, textContent: label })),
  );
  if (pairs.some(([key]) => String(key) === value)) select.value = value;
}

export function formatBytes(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const kilo = bytes / 1000;
  if (kilo < 1000) return `${kilo.toFixed(kilo < 10 ? 1 : 0)} kB`;
  return `${(kilo / 1000).toFixed(kilo < 10_000 ? 1 : 0)} MB`;
}

export function formatSeconds(seconds) {
  if (seconds < 1) return "under 1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

export function formatPixels(pixels) {
  return `${+(pixels / 1e6).toFixed(pixels < 1e7 ? 1 : 0)} megapixels`;
}
