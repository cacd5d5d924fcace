// Calls of the contract, as every caller makes them: Connect with JSON. The access token is kept for this tab alone.

const KEY = "reeve-token";

export class CallError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function setToken(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

/** 32 random bytes in base64 for URLs: the secret of a token. */
export function randomText() {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace("=", "");
}

/** Returns a function that makes calls. One that got no answer can be made again, and has no second effect. */
export function repeatable() {
  let sent, key;
  return (method, request, signal) => {
    const text = method + JSON.stringify(request);
    if (text !== sent) [sent, key] = [text, randomText()];
    return call(method, request, { key, signal });
  };
}

/** For a search in several calls: returns a function that says after each whether another one may begin. A page is not to take longer. */
export function searchTime() {
  let end;
  return () => performance.now() < (end ??= performance.now() + 1000);
}

const FRESH_MS = 1500; // longer than managers keep answers
const READS_MAX = 32; // of a request
const TIME_MS = 30000, PATIENCE_MS = 5000; // for a call in the manager, and beyond that: it may be frozen or cut off

let freshUntil = 0;

/**
 * Makes a call ("TaskService/Get"). `key` lets a change be repeated without a second effect. `reads`: it changes nothing. `waits`: it may
 * wait so many milliseconds.
 */
export async function call(method, request = {}, { signal, key, reads, waits = 0, bearer = token() } = {}) {
  const time = TIME_MS + waits;
  const headers = { "content-type": "application/json", "connect-protocol-version": "1", "connect-timeout-ms": String(time) };
  if (bearer) headers.authorization = `Bearer ${bearer}`;
  if (key) headers["idempotency-key"] = key;
  const ends = AbortSignal.any([signal, AbortSignal.timeout(time + PATIENCE_MS)].filter(Boolean));
  let response, answer;
  try {
    response = await fetch(`/reeve.v1.${method}`, {
      method: "POST", headers, body: JSON.stringify(request), signal: ends, cache: "no-store", credentials: "omit",
    });
    answer = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new CallError("unreachable", response ? `the answer cannot be read: ${error.message}` : "the manager does not answer");
  }
  if (!reads) freshUntil = performance.now() + FRESH_MS;
  if (response.ok) return answer;
  // 421: without a token the manager answers only at an address or at localhost.
  throw new CallError(response.status === 421 ? "unauthenticated" : answer.code ?? "unknown", answer.message ?? `status ${response.status}`);
}

/**
 * Returns a function that makes the calls of a page, which change nothing. Those that are made at the same time go to the manager in one
 * request, and one request follows the other. The manager makes the first one's calls at the next multiple of `every` ms, for all tabs at the
 * same moment; 0: at once. Answers may be those of another tab a second ago, unless this tab has just made another call, perhaps a change.
 */
export function poll(signal, every = 0) {
  let asked = [], sends = false;
  const request = async (reads) => {
    const maxAgeMs = performance.now() > freshUntil ? 1000 : 0;
    for (;;) { // until the moment has come
      const { answers } = await call("WebService/Poll", { everyMs: every, maxAgeMs, reads }, { signal, reads: true, waits: Math.min(every, TIME_MS) });
      if (answers) return answers;
    }
  };
  const send = async () => {
    while (asked.length) {
      const some = asked.splice(0, READS_MAX);
      try {
        const answers = await request(some.map(({ method, request }) => ({ method, request: JSON.stringify(request) })));
        for (const [i, { answer, code, message }] of answers.entries())
          if (code === "out_of_range") call(some[i].method, some[i].request, { signal, reads: true }).then(some[i].resolve, some[i].reject); // too long for all together
          else if (code) some[i].reject(new CallError(code, message));
          else some[i].resolve(JSON.parse(answer));
      } catch (error) {
        for (const { reject } of some) reject(error);
      }
      every = 0;
      await new Promise((resolve) => { setTimeout(resolve, 0); }); // so that the calls that depend on these are together
    }
    sends = false;
  };
  return (method, request = {}) => new Promise((resolve, reject) => {
    asked.push({ method, request, resolve, reject });
    if (!sends) queueMicrotask(send);
    sends = true;
  });
}
