// Items that the browser keeps for the page. Where it blocks storage, they last as long as the page.

const blocked = new Map();

/** The value of `item`; undefined: none. `area` is "localStorage" or "sessionStorage". */
export function stored(area, item) {
  try {
    return window[area].getItem(item) ?? blocked.get(item);
  } catch {
    return blocked.get(item);
  }
}

/** Keeps `value` as `item`; undefined removes it. */
export function store(area, item, value) {
  blocked.delete(item);
  try {
    if (value === undefined) window[area].removeItem(item);
    else window[area].setItem(item, value);
  } catch {
    if (value !== undefined) blocked.set(item, value);
  }
}
