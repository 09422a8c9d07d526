// /docs in a real browser: the page that people read before they call the service.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checkAccessible, keepScreenshot, launch, openPage, url } from "./harness.js";

const PHONE = { width: 390, height: 844, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** How far down the page the element with an id begins, in CSS pixels. */
const topOf = (page, id) =>
  page.$eval(`[id="${id}"]`, (element) => element.getBoundingClientRect().top + scrollY);

for (const [name, viewport, scheme] of [
  ["a phone", PHONE, "light"],
  ["a phone, dark", PHONE, "dark"],
  ["a desk", undefined, "light"],
]) {
  test(`the documentation on ${name}: fits, accessible, options first`, async () => {
    const page = await openPage(browser, { viewport, scheme, path: "/docs" });
    await checkAccessible(page, name); // its width as well
    await keepScreenshot(page, `docs-${name.replaceAll(/\W+/g, "-")}`);
    const options = await topOf(page, "options");
    for (const id of ["upscale", "reasons", "objects"]) {
      assert.ok(options < (await topOf(page, id)), `the options stand before #${id}`);
    }
    assert.ok(options < 2500, `${options} pixels to the options`);
    await page.finish();
  });
}

test("the table of contents leads to each call, and every link somewhere", async () => {
  const page = await openPage(browser, { viewport: PHONE, path: "/docs" });
  const { paths } = await (await fetch(`${url}/openapi.json`)).json();
  const methods = ["get", "head", "post", "put", "delete", "options", "patch"];
  const calls = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item)
      .filter((key) => methods.includes(key))
      .map((method) => `${method.toUpperCase()} ${path}`),
  );
  const contents = await page.$$eval("nav a", (links) => links.map((link) => link.textContent));
  assert.deepEqual(contents, ["Options", ...calls, "Reasons of errors", "Objects"]);
  const lost = await page.$$eval('a[href^="#"]', (links) =>
    links
      .map((link) => decodeURIComponent(link.hash.slice(1)))
      .filter((id) => !document.getElementById(id)),
  );
  assert.deepEqual(lost, []);
  await page.click(`nav a[href="#reasons"]`);
  await page.waitForFunction(
    () => Math.abs(document.getElementById("reasons").getBoundingClientRect().top) < 100,
  );
  await page.finish();
});

test("every call has a command, every option its values, every reason a remedy", async () => {
  const page = await openPage(browser, { path: "/docs" });
  const facts = await page.evaluate(() => ({
    calls: document.querySelectorAll("nav li").length - 3,
    commands: document.querySelectorAll("main pre").length,
    short: [...document.querySelectorAll("dt[id^=option-], dt[id^=reason-]")]
      .filter((term) => term.nextElementSibling?.textContent.trim().length < 10)
      .map((term) => term.id),
    options: document.querySelectorAll("dt[id^=option-]").length,
    reasons: document.querySelectorAll("dt[id^=reason-]").length,
  }));
  assert.ok(facts.commands >= facts.calls, JSON.stringify(facts));
  assert.deepEqual(facts.short, []);
  assert.ok(facts.options > 25 && facts.reasons > 15, JSON.stringify(facts));
  await page.finish();
});
