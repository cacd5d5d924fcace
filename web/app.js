// The dashboard: sign-in, navigation, and the loop that keeps a page up to date.
import { h, listen, update } from "./dom.js";
import { CallError, call, randomText, setToken, token } from "./rpc.js";

const PAGES = [
  [/^\/$/, "./overview.js", "Overview"],
  [/^\/tasks$/, "./tasks.js", "Tasks"],
  [/^\/tasks\/(?<id>\d{1,19})$/, "./task.js"],
];
const CODE = "#code="; // of the address that `reeve dev` prints
const SESSION_MS = 12 * 3600000;
const ERROR_PAUSE_MS = 5000;

const main = document.getElementById("main");
const header = document.getElementById("header");
const problem = document.getElementById("problem");
const tabs = new BroadcastChannel("reeve");
let caller = null; // as WhoAmI describes it
let running = null; // the AbortController of the page that is shown
let shown = null; // its module

listen(document.body);

// ---- sign-in ----

// A new tab of the same browser needs no second sign-in: it asks those that are open, which may answer while it shows the form.
tabs.onmessage = ({ data }) => {
  if (data.ask && caller && token()) tabs.postMessage({ token: token() });
  else if (data.token && !caller && !token()) {
    setToken(data.token);
    start();
  } else if (data.signedOut && token()) end("");
};

/** Exchanges a one-time code, which is a token, for another token, which ends the code. */
async function exchange(code) {
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
    setToken(event.target.elements.token.value.trim());
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
  caller = shown = null;
  setToken("");
  signInForm(message);
}

function signOut() {
  end("");
  tabs.postMessage({ signedOut: true });
}

/** Signs in with what there is. `given`: the reader has just given a token, and is told what is wrong with it. */
async function start(given = false) {
  let used = "";
  try {
    if (location.hash.startsWith(CODE)) {
      given = true;
      const code = decodeURIComponent(location.hash.slice(CODE.length));
      history.replaceState(null, "", "#/");
      await exchange(code);
    }
    if (!token()) tabs.postMessage({ ask: true });
    used = token();
    given ||= used !== "";
    caller = await call("AdminService/WhoAmI");
  } catch (error) {
    if (token() !== used) return; // in that time another tab has answered
    const refused = error.code === "unauthenticated";
    if (refused) setToken("");
    signInForm(given || !refused ? error.message : "");
    return;
  }
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

/** Waits, and goes on only while the tab is visible. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const go = () => {
      if (document.hidden && !signal.aborted) document.addEventListener("visibilitychange", go, { once: true });
      else resolve();
    };
    setTimeout(go, ms);
    signal.addEventListener("abort", resolve);
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
  const text = error && `${error.message}${since ? `. Last update at ${since.toLocaleTimeString()}; trying again.` : ""}`;
  if (problem.textContent !== (text || "")) problem.textContent = text || "";
}

/** Loads and shows the page of the address again and again until another is chosen. */
async function navigate() {
  running?.abort();
  const { signal } = (running = new AbortController());
  const at = parse(location.hash);
  let page, data, last = null, first = true;
  showHeader(at.path);
  showProblem(null);
  if (!at.module) {
    document.title = "Reeve";
    main.replaceChildren(h("h1", { tabindex: "-1" }, "There is no such page"));
    return;
  }
  try {
    page = await import(at.module);
  } catch {
    main.replaceChildren(h("h1", null, "This page is out of date"),
      h("p", null, "The manager has been upgraded, or does not answer."),
      h("button", { on: { click: () => location.reload() } }, "Load again"));
    return;
  }
  while (!signal.aborted) {
    let failed = null;
    try {
      data = await page.load({ ...at, call: (method, request) => call(method, request, { signal }) }, data);
      last = new Date();
    } catch (error) {
      failed = error;
    }
    if (signal.aborted) return;
    if (failed?.code === "unauthenticated") return end("The access token has ended. Sign in again.");
    if (failed && !(failed instanceof CallError)) console.error(failed);
    showProblem(failed, last);
    if (data) {
      document.title = `${page.title(data, at)} · Reeve`;
      if (first && shown !== at.module) main.replaceChildren();
      update(main, page.view(data, at), first);
    } else if (first) {
      main.replaceChildren(h("h1", { tabindex: "-1" }, failed.code === "not_found" ? "Not found" : "No answer"));
    }
    if (first && shown !== at.module) main.querySelector("h1")?.focus();
    shown = at.module;
    first = false;
    const every = failed ? ERROR_PAUSE_MS : page.every(data, at);
    if (!every || (failed?.code === "not_found" && !data)) return;
    await pause(every, signal);
  }
}

addEventListener("hashchange", () => {
  if (location.hash.startsWith(CODE)) start();
  else if (caller) navigate();
});

start();
