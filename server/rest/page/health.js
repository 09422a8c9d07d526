// The line that says which model and device answer, and what waits.

import { byId } from "./dom.js";

const EVERY_MS = 20_000;

/** Asks the server how it is, at once and now and then while the page is seen. */
export class Health {
  #text = "connecting";
  #state = "unknown";
  #work = "";
  #ask;

  /** `ask()` resolves to {models, info}, or rejects with why there is no answer. */
  constructor(ask) {
    this.#ask = ask;
    setInterval(() => document.visibilityState === "visible" && this.refresh(), EVERY_MS);
  }

  async refresh() {
    try {
      const { models, info } = await this.#ask();
      const up = info.devices.filter((device) => device.state === "up");
      const model = models.find((candidate) => candidate.is_default) ?? models[0];
      this.#state = up.length === info.devices.length ? "ok" : up.length ? "warn" : "down";
      const devices = up.map((device) => device.description || device.name).join(" + ");
      this.#text = up.length ? `${model?.name ?? "no model"} on ${devices}` : "no device works";
    } catch (error) {
      this.#state = "down";
      this.#text = error.status ? error.message : "cannot reach the server";
    }
    this.#show();
  }

  /** How many images are worked on and wait. */
  setWork(running, waiting) {
    this.#work = running || waiting ? `${running} running, ${waiting} waiting` : "idle";
    this.#show();
  }

  #show() {
    byId("health").dataset.state = this.#state;
    const text =
      this.#state === "down" || !this.#work ? this.#text : `${this.#text} · ${this.#work}`;
    if (byId("health-text").textContent !== text) byId("health-text").textContent = text;
  }
}
