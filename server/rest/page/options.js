// The settings: model, size, noise and format.

import { byId, element, fillSelect } from "./dom.js";
import { store, stored } from "./storage.js";

const FACTORS = [1, 2, 3, 4, 8];
const AUTO = "auto";
const MAX_CHAIN = 8;
const LOSSY = new Set(["jpeg", "webp", "avif", "jxl"]);
const SETTINGS_ITEM = "upscaled-settings";
const PRECISION_NAMES = { exact: "Exact", fast: "Fast" };
const NOISE_NAMES = {
  [-1]: "Off",
  0: "0 · faint",
  1: "1 · light",
  2: "2 · medium",
  3: "3 · strong",
};

function noiseName(level) {
  return NOISE_NAMES[level] ?? String(level);
}

/**
 * The form of the settings. `onChange` is called after each change that a person makes, `tell` with a
 * sentence about settings that a link asks for in vain.
 */
export class OptionsPanel {
  #form = byId("options");
  #fields = this.#form.elements;
  #models = [];
  #tell;

  constructor(onChange, tell) {
    this.#tell = tell;
    const choices = [
      ...FACTORS.map((factor) => [String(factor), `${factor}×`]),
      ["target", "Other"],
    ];
    byId("sizes").append(
      ...choices.map(([value, label]) =>
        element(
          "label",
          {},
          element("input", { type: "radio", name: "size", value, defaultChecked: value === "2" }),
          element("span", { textContent: label }),
        ),
      ),
    );
    this.#form.addEventListener("input", (event) => {
      if (event.target.closest("#chain")) this.#readChain();
      this.#update();
      this.#remember();
      onChange();
    });
    byId("copy-link").addEventListener("click", () => this.#copyLink());
    this.#form.addEventListener("submit", (event) => event.preventDefault());
    window.addEventListener("hashchange", () => {
      if (!location.hash || !this.#models.length) return;
      onChange();
      this.#reset();
      this.#recall();
    });
    this.#update();
  }

  /** Offers what the server has. */
  setServer(models, info) {
    this.#models = models;
    fillSelect(
      this.#fields.model,
      models.map((model) => [model.name, model.name]),
    );
    const first = !this.#fields.model.dataset.chosen;
    if (first) {
      this.#chooseDefaultModel();
      this.#fields.model.dataset.chosen = "yes";
    }
    const names = { webp: "WebP", jxl: "JPEG XL" };
    fillSelect(this.#fields.format, [
      ["", "As the source"],
      ...info.output_formats.map((name) => [name, names[name] ?? name.toUpperCase()]),
    ]);
    this.#update();
    if (first) this.#recall();
  }

  #chooseDefaultModel() {
    const model = this.#models.find((candidate) => candidate.is_default) ?? this.#models[0];
    this.#fields.model.value = model?.name ?? "";
  }

  /** Makes all settings those of a first visit: a link leaves out what is not set. */
  #reset() {
    this.#form.reset();
    this.#fields.then.value = "";
    this.#chooseDefaultModel();
  }

  /** Options of a call, as UpscaledClient.upscale takes them. */
  get() {
    const { model, noise, format, quality, size, width, height, precision, frame, tta, seamless } =
      this.#fields;
    const options = {
      model: [model.value, ...this.#chain()].join(","),
      noiseLevel: noise.value === AUTO ? AUTO : Number(noise.value),
      format: format.value,
    };
    if (size.value === "target") {
      options.widthPx = Number(width.value) || undefined;
      options.heightPx = Number(height.value) || undefined;
    } else {
      options.scale = Number(size.value);
    }
    if (LOSSY.has(format.value)) options.quality = Number(quality.value);
    if (precision.value) options.precision = precision.value;
    if (Number(frame.value) > 0) options.frame = Number(frame.value);
    if (tta.checked) options.tta = true;
    if (seamless.checked) options.seamless = true;
    return options;
  }

  /** The address of this page with the settings behind #. */
  link() {
    return `${location.origin}${location.pathname}#${this.#settings()}`;
  }

  /** Without TLS, browsers let no page copy: the address bar has the link then. */
  async #copyLink() {
    let told = "Copied";
    try {
      await navigator.clipboard.writeText(this.link());
    } catch {
      history.replaceState(null, "", this.link());
      told = "The link is in the address bar";
    }
    byId("copy-link").textContent = told;
  }

  #settings() {
    return new URLSearchParams([...new FormData(this.#form)].filter(([, value]) => value !== ""));
  }

  #remember() {
    byId("copy-link").textContent = "Copy a link with these settings";
    // A link's settings hold until one is changed.
    if (location.hash) history.replaceState(null, "", location.pathname + location.search);
    store("localStorage", SETTINGS_ITEM, String(this.#settings()));
  }

  /** Takes the settings of the link that led here, or those of the last visit. */
  #recall() {
    const remembered = stored("localStorage", SETTINGS_ITEM) ?? "";
    const settings = new URLSearchParams(location.hash.slice(1) || remembered);
    // Twice: the noise levels on offer follow from the model.
    for (let round = 0; round < 2; ++round) {
      for (const [name, value] of settings) {
        const field = this.#fields.namedItem(name);
        if (field?.type === "checkbox") field.checked = value === "on";
        else if (field?.tagName === "SELECT") {
          if ([...field.options].some((option) => option.value === value)) field.value = value;
        } else if (field) field.value = value;
      }
      this.#update();
    }
    if (location.hash) this.#tellMissing(settings);
  }

  /** Says which settings of a link this server does not offer. */
  #tellMissing(settings) {
    const taken = new FormData(this.#form);
    taken.set("then", this.#chain().join(","));
    const missing = [...settings].filter(([name, value]) => value && taken.get(name) !== value);
    const names = missing.map((setting) => setting.join("=")).join(", ");
    if (names) this.#tell(`The link asks for ${names}, which this server does not offer.`);
  }

  setModel(model, noiseLevel) {
    this.#fields.model.value = model;
    this.#fields.then.value = "";
    this.#update();
    this.#fields.noise.value = String(noiseLevel);
  }

  /** Every model with each of its noise levels, as [value, label]; parseVariant reads the value. */
  variants() {
    return this.#models.flatMap((model) =>
      [...model.noise_levels]
        .sort((a, b) => a - b)
        .map((level) => [
          `${level} ${model.name}`,
          level < 0 ? model.name : `${model.name} · noise ${level}`,
        ]),
    );
  }

  /** Names of the models that run after the first. */
  #chain() {
    const names = this.#fields.then.value.split(",");
    return names.filter((name) => this.#models.some((model) => model.name === name));
  }

  #readChain() {
    const names = [...byId("chain").querySelectorAll("select")].map((select) => select.value);
    this.#fields.then.value = names.filter((name) => name).join(",");
  }

  /** Shows a select for each of these models, and one for another. */
  #showChain(names) {
    const box = byId("chain");
    const count = Math.min(names.length + 1, MAX_CHAIN - 1);
    while (box.children.length > count) box.lastChild.remove();
    while (box.children.length < count) {
      const id = `then-${box.children.length}`;
      const label = element("label", { htmlFor: id, textContent: "Then run" });
      box.append(element("div", { className: "field" }, label, element("select", { id })));
    }
    const choices = this.#models.map((model) => [model.name, model.name]);
    box.querySelectorAll("select").forEach((select, i) => {
      fillSelect(select, [["", "No other model"], ...choices]);
      select.value = names[i] ?? "";
    });
  }

  #update() {
    const { model: name, noise, format, size, quality, precision } = this.#fields;
    const chain = this.#chain();
    this.#showChain(chain);
    const model = this.#models.find((candidate) => candidate.name === name.value);
    const all = this.#models.filter((other) => other === model || chain.includes(other.name));
    const offered = new Set(all.length ? all.flatMap((other) => other.noise_levels) : [-1]);
    const levels = [...offered].sort((a, b) => a - b);
    fillSelect(
      noise,
      [
        [AUTO, "By the picture"],
        ...levels.map((level) => [String(level), noiseName(level)]),
      ],
    );
    const precisions = Object.entries(PRECISION_NAMES).filter(([key]) =>
      all.every((other) => other.precisions.includes(key)),
    );
    fillSelect(precision, [["", "Default"], ...precisions]);
    byId("model-hint").textContent = (model?.description ?? "").split(/(?<=\.) /)[0];
    byId("target").hidden = size.value !== "target";
    byId("quality-field").hidden = !LOSSY.has(format.value);
    byId("quality-value").value = quality.value;
  }
}

export function parseVariant(value) {
  const [level, ...name] = value.split(" ");
  return { model: name.join(" "), noiseLevel: Number(level) };
}
