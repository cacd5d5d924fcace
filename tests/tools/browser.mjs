/**
 * Pages of the dashboard in Chromium without windows, driven by playwright-core (installed by tests/e2e/npm.bash).
 *
 *	await browse(async (browser) => {
 *	  const page = await browser.open("http://127.0.0.1:7172/");
 *	  await page.see("Overview");
 *	});
 *
 * Each wait ends when its condition holds, at the latest after 60 s. `browse` fails if a page has reported an exception, an error
 * on its console, or a violation of its security policy, unless the test has waited for one.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const { chromium } = createRequire(new URL("../../build-npm/", import.meta.url))("playwright-core");

const WAIT_MS = 60000;

class Page {
  /** `tab` is Playwright's page, `session` its DevTools. */
  constructor(tab, session) {
    Object.assign(this, { tab, session, problems: [] });
    tab.on("pageerror", (error) => this.problems.push(error.stack));
    tab.on("console", (message) => {
      // A call that fails is not a problem: the page shows it.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) this.problems.push(message.text());
    });
  }

  send(method, parameters) {
    return this.session.send(method, parameters);
  }

  /** Runs a script in each document from now on, before the document's own. */
  before(script) {
    return this.tab.addInitScript(script);
  }

  /**
   * From now on, in each document: the page's polls come `times` as often, a number or an expression of it, and `polled` counts the calls
   * that they have made, by method.
   */
  hurry(times) {
    return this.before(`window.polled = {};
      const ask = fetch;
      window.fetch = async (url, options) => {
        if (!String(url).endsWith("/Poll")) return ask(url, options);
        const poll = JSON.parse(options.body);
        const answer = await ask(url, { ...options, body: JSON.stringify({ ...poll, everyMs: Math.ceil(poll.everyMs / ${times}) }) });
        for (const { method } of poll.reads) polled[method] = (polled[method] ?? 0) + 1;
        return answer;
      };`);
  }

  /** From now on, in each document: the answer that the page's polls get to the calls of a method. */
  answer(method, answer) {
    return this.before(`{
      const ask = fetch;
      window.fetch = async (url, options) => {
        const response = await ask(url, options);
        if (!String(url).endsWith("/Poll")) return response;
        const { reads } = JSON.parse(options.body), { answers, ...others } = await response.json();
        const given = answers?.map((one, i) => (reads[i].method === ${JSON.stringify(method)} ? { answer: ${JSON.stringify(JSON.stringify(answer))} } : one));
        return Response.json({ ...others, answers: given }, { status: response.status });
      };
    }`);
  }

  /** Watches the page's requests: returns an object with those that are open, the most that were open at a time, and the paths of all. */
  watch() {
    const seen = { open: new Set(), most: 0, paths: [] };
    this.tab.on("request", (request) => {
      seen.open.add(request);
      seen.most = Math.max(seen.most, seen.open.size);
      seen.paths.push(new URL(request.url()).pathname);
    });
    for (const end of ["requestfinished", "requestfailed"]) this.tab.on(end, (request) => seen.open.delete(request));
    return seen;
  }

  /** The value of an expression in the page. */
  eval(expression) {
    return this.tab.evaluate(expression);
  }

  /** Waits until an expression is true. While the page changes, an evaluation may fail. */
  async until(expression, what = expression) {
    const end = Date.now() + WAIT_MS;
    for (let pause = 10; ; pause = Math.min(2 * pause, 200)) {
      if (await this.eval(`Boolean(${expression})`).catch(() => false)) return;
      if (Date.now() > end) assert.fail(`not within 60 s: ${what}\nthe page is:\n${await this.text()}\nproblems: ${this.problems.join("\n")}`);
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

  async type(selector, text) {
    await this.tab.fill(selector, text);
  }

  /** An action: its dialog says `before`, gets the fields (by name), and then says `after`. */
  async act(button, before, fields, after) {
    await this.click("main button", `${button}…`);
    await this.find("dialog");
    await this.see(before);
    for (const [name, text] of Object.entries(fields)) {
      const input = this.tab.locator(`[id="action-${name}"]`);
      if (await input.evaluate((e) => e.localName === "select")) await input.selectOption(text);
      else await input.fill(text);
    }
    await this.click("dialog button:not([type]):not(:disabled)");
    await this.see(after);
    await this.click("dialog button", "Close");
  }

  press(key) {
    return this.tab.keyboard.press(key);
  }

  async go(address) {
    await this.tab.goto(address, { waitUntil: "commit" });
  }

  /** Goes to a page of the dashboard, and waits until it is shown. */
  async show(address) {
    await this.go(address);
    await this.until(`document.getElementById("main")?.dataset.shown === location.hash`, address);
  }

  /** Waits for a problem, which is taken with all others. */
  async problem(pattern) {
    for (const end = Date.now() + WAIT_MS; !this.problems.some((text) => pattern.test(text)); await sleep(20))
      assert.ok(Date.now() < end, `not within 60 s: the problem ${pattern}`);
    this.problems.splice(0);
  }

  hash() {
    return this.eval("location.hash");
  }

  size(width, height) {
    return this.tab.setViewportSize({ width, height });
  }

  dark(on) {
    return this.tab.emulateMedia({ colorScheme: on ? "dark" : "light" });
  }

  /** What axe-core, whose file is given, finds wrong with the page. */
  async axe(file) {
    if (!(await this.eval("`axe` in window"))) await this.eval(`${readFileSync(file, "utf8")}; null`);
    return this.eval(`axe.run({ resultTypes: ["violations"] }).then(({ violations }) =>
      violations.flatMap(({ id, help, nodes }) => nodes.map(({ html, failureSummary }) => [id, help, html, failureSummary].join(": "))))`);
  }

  picture() {
    return this.tab.screenshot();
  }

  close() {
    return this.tab.close();
  }
}

/** Lets the test do something (`at_step` in web.bash), and waits until it is done. */
export async function step(name) {
  const file = join(process.env.REEVE_TEST_DIR, `step.${name}`);
  writeFileSync(file, "");
  for (const end = Date.now() + WAIT_MS; !existsSync(`${file}.done`); await sleep(20)) assert.ok(Date.now() < end, `not within 60 s: the step ${name}`);
}

/** Runs steps with a new browser, which reaches no other host, and ends it also after a failure. */
export async function browse(steps) {
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium-headless-shell",
    chromiumSandbox: false,
    args: ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.localhost"],
    timeout: WAIT_MS,
  });
  const pages = [];
  try {
    const context = await browser.newContext();
    context.setDefaultTimeout(WAIT_MS);
    await steps({
      async open(address) {
        const tab = await context.newPage();
        const page = new Page(tab, await context.newCDPSession(tab));
        pages.push(page);
        await page.go(address);
        return page;
      },
    });
  } finally {
    await browser.close();
  }
  for (const page of pages) assert.deepEqual(page.problems, []);
}
