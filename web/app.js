// The dashboard: sign-in, navigation, and the loop that keeps a page up to date.
import { h, keepFocus, listen, loading, update } from "./dom.js";
import { CallError, call, poll, randomText, setToken, token } from "./rpc.js";

const PAGES = [
  [/^\/$/, "./overview.js", "Overview"],
  [/^\/tasks$/, "./tasks.js", "Tasks"],
  [/^\/tasks\/(?<id>\d{1,19})$/, "./task.js"],
  [/^\/queues$/, "./queues.js", "Queues"],
  [/^\/workers$/, "./workers.js", "Workers"],
  [/^\/batches$/, "./batches.js", "Batches"],
  [/^\/pipelines$/, "./pipelines.js", "Pipelines"],
  [/^\/schedules$/, "./schedules.js", "Schedules"],
  [/^\/errors$/, "./errors.js", "Errors"],
  [/^\/callbacks$/, "./callbacks.js", "Callbacks"],
];
const TOKEN = /^[!-~]{1,1000}$/; // what may be one
const CODE = "#code="; // of the address that `reeve dev` prints
const SESSION_MS = 12 * 3600000;
const ERROR_PAUSE_MS = 5000;
const UPGRADE_MS = 60000;
const HIDDEN = "hidden"; // why a load ends
const NEW_TOKEN_TRIES = 10; // managers read new tokens within a second
const HEADINGS = { not_found: "Not found", invalid_argument: "There is no such page", permission_denied: "Not allowed" };

const main = document.getElementById("main");
const header = document.getElementById("header");
const problem = document.getElementById("problem");
const tabs = new BroadcastChannel("reeve");
let caller = null; // as WhoAmI describes it
let running = null; // the AbortController of the page that is shown
let shown = null; // its module
let place = null; // and what of it: a refresh and other filters are the same place
let upgradeChecked = performance.now();
const offered = []; // tokens that other tabs have sent

listen(document.body);

// ---- sign-in ----

// A new tab of the same browser needs no second sign-in: it asks those that are open, which may answer while it shows the form.
tabs.onmessage = ({ data }) => {
  if (data.ask && caller && token()) tabs.postMessage({ token: token() });
  else if (data.token && !caller) {
    offered.push(data.token);
    if (!token()) takeOffer();
  } else if (data.signedOut && token()) end("");
};

/** Signs in with a token of another tab, if there is one. Some may have ended: a hidden tab does not notice. */
function takeOffer() {
  setToken(offered.shift());
  if (token()) start();
  return token() !== "";
}

/** Exchanges a one-time code, which is a token, for another token, which ends the code. */
async function exchange(code) {
  if (!crypto.subtle) throw new CallError("failed_precondition", "A code signs in only at https:// or on the manager's machine.");
  const secret = randomText();
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  const hash = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const options = { bearer: code, key: randomText() };
  try {
    const { name } = await call("AdminService/WhoAmI", {}, options);
    const { id } = await call("TokenService/Rotate", { name, hash, expiresInMs: String(SESSION_MS) }, options);
    setToken(`reeve_${id}_${secret}`);
  } catch (error) {
    if (error.code !== "unauthenticated") throw error;
    throw new CallError(error.code, "This code has been used or has expired. The next start of reeve dev prints a new one.");
  }
}

function signInForm(message) {
  const submit = async (event) => {
    event.preventDefault();
    const text = event.target.elements.token.value.trim();
    if (!TOKEN.test(text)) return signInForm("This is no access token."); // no header can have it
    setToken(text);
    await start(true);
  };
  document.title = "Sign in · Reeve";
  update(header, []);
  problem.textContent = "";
  main.replaceChildren(h("form", { class: "sign-in", on: { submit } },
    h("h1", null, "Reeve"),
    message && h("p", { role: "alert", class: "error" }, message),
    h("label", { for: "token" }, "Access token"),
    h("input", { id: "token", name: "token", type: "password", autocomplete: "off", required: true, autofocus: true }),
    h("button", null, "Sign in"),
    h("p", null, "An operator creates one: ", h("code", null, "reeve token create NAME --role reader"),
      ". The role operator may also act. It is kept until you close this tab or sign out.")));
  main.querySelector("input").focus();
}

/** Forgets the token and shows the sign-in. */
function end(message) {
  running?.abort();
  document.querySelector("dialog")?.dispatchEvent(new Event("cancel"));
  caller = shown = place = null;
  setToken("");
  signInForm(message);
}

function signOut() {
  end("");
  tabs.postMessage({ signedOut: true });
}

/** Returns the caller, whose token may be so new that the manager has not read it yet. */
async function whoAmI(tries) {
  for (;;)
    try {
      return await call("AdminService/WhoAmI", {}, { reads: true });
    } catch (error) {
      if (error.code !== "unauthenticated" || --tries <= 0) throw error;
      await new Promise((resolve) => { setTimeout(resolve, 1000); });
    }
}

/** Signs in with what there is. `given`: the reader has just given a token, and is told what is wrong with it. */
async function start(given = false) {
  let tries = 1, refused = "";
  try {
    if (location.hash.startsWith(CODE)) {
      given = true;
      const code = location.hash.slice(CODE.length);
      history.replaceState(null, "", "#/");
      await exchange(decodeURIComponent(code));
      tries = NEW_TOKEN_TRIES;
    }
  } catch (error) { // this tab or another may be signed in all the same
    refused = error.message;
  }
  if (!token()) tabs.postMessage({ ask: true });
  const used = token();
  given ||= used !== "";
  try {
    caller = await whoAmI(tries);
  } catch (error) {
    if (token() !== used) return; // in that time another tab has answered
    if (error.code === "unauthenticated") {
      if (!takeOffer()) signInForm(refused || (given ? error.message : ""));
    } else {
      noAnswer(error);
      setTimeout(() => caller || start(given), ERROR_PAUSE_MS);
    }
    return;
  }
  offered.length = 0;
  for (const [, module] of PAGES) import(module).catch(() => {}); // so they are there, even if the manager is not
  navigate();
}

// ---- pages ----

function showHeader(path) {
  const links = PAGES.filter(([, , name]) => name).map(([pattern, , name]) => {
    const target = pattern.source.slice(1, -1).replaceAll("\\/", "/");
    const current = target === "/" ? path === "/" : path.startsWith(target);
    return h("li", null, h("a", { href: `#${target}`, "aria-current": current && "page" }, name));
  });
  update(header, [
    h("nav", { "aria-label": "Pages" }, h("ul", null, links)),
    h("p", { class: "caller" },
      h("span", { title: `manager ${caller.manager}, version ${caller.version}` }, caller.name || "this machine"),
      " ", (caller.roles ?? []).map((role) => role.replace("ROLE_", "").toLowerCase()).join(", "), " ",
      token() ? h("button", { on: { click: signOut } }, "Sign out") : null),
  ]);
}

/** Waits until a time has passed and the tab is visible. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      signal.removeEventListener("abort", end);
      resolve();
    };
    const go = () => {
      if (document.hidden && !signal.aborted) document.addEventListener("visibilitychange", go, { once: true });
      else end();
    };
    if (signal.aborted) return resolve();
    setTimeout(go, ms);
    signal.addEventListener("abort", end);
  });
}

function parse(hash) {
  const [path, search] = (hash.replace(/^#/, "") || "/").split(/\?(.*)/s);
  for (const [pattern, module] of PAGES) {
    const found = pattern.exec(path);
    if (found) return { path, module, parameters: { ...found.groups }, filter: new URLSearchParams(search ?? "") };
  }
  return { path, filter: new URLSearchParams() };
}

function showProblem(error, since) {
  const text = error && `${error.message}${since ? `. Last update at ${since.toLocaleString()}; trying again.` : ""}`;
  if (problem.textContent !== (text || "")) problem.textContent = text || "";
}

/** Shows nothing but a heading. */
function showHeading(text) {
  document.title = `${text} · Reeve`;
  update(main, [h("h1", { tabindex: "-1" }, text)], true);
}

function noAnswer(error) {
  showProblem(error);
  showHeading("No answer");
}

/** The folder of the manager's files; null if no manager answers, though a proxy may. */
async function newestFolder() {
  try {
    const page = await fetch("/", { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(ERROR_PAUSE_MS) });
    return page.ok ? /\/web\/[0-9a-f]{16}\//.exec(await page.text())[0] : null;
  } catch {
    return null;
  }
}

/** A manager of another version has other files. Nobody is interrupted who types or decides. */
async function reloadIfUpgraded() {
  upgradeChecked = performance.now();
  const folder = await newestFolder();
  if (folder && !import.meta.url.includes(folder) && !document.querySelector("dialog, input:focus, select:focus")) location.reload();
}

/** Whether the caller may change anything. The manager decides; this only hides what it would refuse. */
function mayOperate() {
  return caller.roles?.some((role) => role === "ROLE_OPERATOR" || role === "ROLE_ADMIN") ?? false;
}

/** Loads and shows the page of the address again and again until another is chosen. */
async function navigate() {
  running?.abort();
  const { signal } = (running = new AbortController());
  let round; // the AbortController of what is being loaded, which may be older than a change
  const refresh = () => round?.abort();
  const hide = () => document.hidden && every && round.abort(HIDDEN); // a browser has few connections for all tabs
  const at = { ...parse(location.hash), may: mayOperate(), call, refresh };
  let page, data, last = null, first = true, failed = null, every = 0;
  const address = location.hash;
  const ready = () => {
    main.removeAttribute("aria-busy");
    main.dataset.shown = address; // tests wait for it
  };
  showHeader(at.path);
  showProblem(null);
  main.setAttribute("aria-busy", "true");
  loading(main);
  for (const button of main.querySelectorAll(".buttons button")) button.disabled = true; // they act on what was chosen before
  if (!at.module) {
    showHeading("There is no such page");
    return ready();
  }
  try {
    page = await import(at.module);
  } catch { // and a browser does not try again
    noAnswer(new CallError("unreachable", "the manager does not answer"));
    main.removeAttribute("aria-busy");
    while (!signal.aborted && !(await newestFolder())) await pause(ERROR_PAUSE_MS, signal);
    return signal.aborted || location.reload();
  }
  document.addEventListener("visibilitychange", hide, { signal });
  while (!signal.aborted) {
    round = new AbortController();
    const ends = AbortSignal.any([signal, round.signal]);
    try {
      data = await page.load({ ...at, call: poll(ends, every) }, data);
      last = new Date();
      if (failed) upgradeChecked = -Infinity; // it may be another manager
      failed = null;
    } catch (error) {
      if (!ends.aborted) failed = error;
    }
    every = 0;
    if (signal.aborted) return;
    if (round.signal.reason === HIDDEN) await pause(0, signal);
    if (ends.aborted) continue;
    if (failed?.code === "unauthenticated") return end("The access token has ended. Sign in again.");
    if (failed && !(failed instanceof CallError)) console.error(failed);
    showProblem(failed, last);
    if (data) {
      document.title = `${page.title(data, at)} · Reeve`;
      const inside = main.contains(document.activeElement);
      if (first && shown !== at.module) main.replaceChildren();
      update(main, page.view(data, at), first);
      if (inside) keepFocus();
    } else showHeading(HEADINGS[failed.code] ?? "No answer");
    shown = at.module;
    if (first) {
      const now = [at.module, document.title, at.filter.get("before"), at.filter.get("after")].join();
      if (now !== place) {
        scrollTo(0, 0);
        main.querySelector("h1")?.focus({ preventScroll: true });
      }
      place = now;
      ready();
    }
    first = false;
    every = failed ? 0 : page.every(data, at);
    if (!failed && !every || failed?.code === "not_found" && !data) return;
    round.abort(); // calls that were to come after a failed one
    round = new AbortController();
    if (failed || performance.now() - upgradeChecked > UPGRADE_MS) await reloadIfUpgraded();
    if (document.hidden || round.signal.aborted) every = 0; // a tab that becomes visible has missed moments
    if (!every) await pause(failed ? ERROR_PAUSE_MS : 0, AbortSignal.any([signal, round.signal]));
  }
}

addEventListener("hashchange", () => {
  document.querySelector("dialog")?.dispatchEvent(new Event("cancel")); // it asks about what is not shown any more
  if (location.hash.startsWith(CODE)) start();
  else if (caller) navigate();
});

setInterval(() => { // of a page that makes no calls
  if (performance.now() - upgradeChecked > 3 * UPGRADE_MS) reloadIfUpgraded();
}, UPGRADE_MS);
start();
