/**
 * Drives Chromium for tests of the dashboard, by the DevTools protocol over two pipes, with Node's standard library alone.
 *
 *	const browser = await start();
 *	const page = await browser.open("http://127.0.0.1:7172/");
 *	await page.see("Overview");
 *	await browser.end();
 *
 * Each wait ends when its condition holds, at the latest after 30 s. `end` fails if a page has reported an exception, an error on
 * its console, or a violation of its security policy, unless the test has taken them with `page.takeProblems()`.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const WAIT_MS = 30000;
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-default-browser-check",
  "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
  "--disable-features=Translate,MediaRouter,OptimizationHints", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
  "--remote-debugging-pipe",
];
const KEYS = { Enter: ["\r", 13], Tab: ["", 9], Escape: ["", 27], Space: [" ", 32] };

class Page {
  constructor(browser, session) {
    Object.assign(this, { browser, session, problems: [] });
  }

  send(method, parameters) {
    return this.browser.send(method, parameters, this.session);
  }

  /** The value of an expression in the page. */
  async eval(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    assert.ok(!exceptionDetails, `${expression}: ${exceptionDetails?.exception?.description ?? exceptionDetails?.text}`);
    return result.value;
  }

  /** Waits until an expression is true. While the page changes, an evaluation may fail. */
  async until(expression, what = expression) {
    const end = Date.now() + WAIT_MS;
    for (let pause = 10; ; pause = Math.min(2 * pause, 200)) {
      const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression: `Boolean(${expression})`, awaitPromise: true, returnByValue: true });
      if (!exceptionDetails && result.value) return;
      if (Date.now() > end) assert.fail(`not within 30 s: ${what}\nthe page is:\n${await this.text()}\nproblems: ${this.problems.join("\n")}`);
      await sleep(pause);
    }
  }

  text() {
    return this.eval("document.body?.innerText ?? ''");
  }

  see(text) {
    return this.until(`document.body?.innerText.includes(${JSON.stringify(text)})`, `see ${text}`);
  }

  gone(text) {
    return this.until(`!document.body?.innerText.includes(${JSON.stringify(text)})`, `gone ${text}`);
  }

  /** Waits for an element, by selector, and if `text` is set with that text. Its expression finds it again. */
  async find(selector, text) {
    const expression = `[...document.querySelectorAll(${JSON.stringify(selector)})].find((e) => ` +
      `${text === undefined} || (e.innerText || e.ariaLabel || '').trim() === ${JSON.stringify(text ?? "")})`;
    await this.until(expression, `find ${selector} ${text ?? ""}`);
    return expression;
  }

  async click(selector, text) {
    await this.eval(`${await this.find(selector, text)}.click()`);
  }

  /** Types into an input, as a person does, after what it has is selected. */
  async type(selector, text) {
    await this.eval(`{ const e = ${await this.find(selector)}; e.focus(); e.select?.(); }`);
    await this.send("Input.insertText", { text });
  }

  async press(key) {
    const [text, code] = KEYS[key] ?? [key, key.toUpperCase().charCodeAt(0)];
    const event = { key: key === "Space" ? " " : key, code: key, windowsVirtualKeyCode: code };
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", text, ...event });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
  }

  async go(address) {
    await this.send("Page.navigate", { url: address });
  }

  hash() {
    return this.eval("location.hash");
  }

  async size(width, height) {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
  }

  async dark(on) {
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: on ? "dark" : "light" }] });
  }

  async picture() {
    return Buffer.from((await this.send("Page.captureScreenshot", { format: "png" })).data, "base64");
  }

  takeProblems() {
    return this.problems.splice(0);
  }
}

class Browser {
  constructor(child) {
    Object.assign(this, { child, calls: new Map(), pages: new Map(), last: 0, rest: "" });
    child.stdio[4].setEncoding("utf8").on("data", (text) => this.take(text));
    child.on("exit", () => {
      for (const { reject } of this.calls.values()) reject(new Error("Chromium has ended"));
    });
  }

  take(text) {
    const messages = (this.rest + text).split("\0");
    this.rest = messages.pop();
    for (const message of messages) this.handle(JSON.parse(message));
  }

  handle({ id, result, error, method, params, sessionId }) {
    if (id) {
      const { resolve, reject } = this.calls.get(id);
      this.calls.delete(id);
      if (error) reject(new Error(error.message));
      else resolve(result);
      return;
    }
    const page = this.pages.get(sessionId);
    if (method === "Runtime.exceptionThrown") page?.problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Runtime.consoleAPICalled" && params.type === "error") page?.problems.push(params.args.map((a) => a.description ?? a.value).join(" "));
    if (method === "Log.entryAdded" && params.entry.level === "error" && params.entry.source !== "network") page?.problems.push(params.entry.text);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.calls.set(id, { resolve, reject });
      this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  async open(address) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    this.pages.set(sessionId, page);
    await Promise.all(["Page.enable", "Runtime.enable", "Log.enable"].map((method) => page.send(method)));
    await page.go(address);
    return page;
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    if (this.child.exitCode === null) {
      this.send("Browser.close").catch(() => {});
      await ended;
    }
  }

  async end() {
    await this.stop();
    for (const page of this.pages.values()) assert.deepEqual(page.problems, []);
  }
}

export async function start() {
  const folder = mkdtempSync(join(process.env.REEVE_TEST_DIR ?? tmpdir(), "chromium."));
  const child = spawn("chromium", [...FLAGS, `--user-data-dir=${folder}`, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const browser = new Browser(child);
  await browser.send("Browser.getVersion");
  return browser;
}

/** Runs steps with a new browser, and ends it also after a failure. */
export async function browse(steps) {
  const browser = await start();
  try {
    await steps(browser);
  } catch (error) {
    await browser.stop();
    throw error;
  }
  await browser.end();
}
