/* Calls of a manager, by the Connect protocol with JSON, and the everyday ones: submit, wait, get. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { hostname, userInfo } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

/* Codes after which the same call may succeed later; a call keeps its idempotency key then. */
export const TRANSIENT = ["unavailable", "resource_exhausted", "aborted", "deadline_exceeded"];
export const BYTES_PER_MS = 100; // of the slowest line; managers expect as much
const WAIT_MS = 20000; // the longest of a call
const FAILOVER_MS = 1500; // that a manager has at least, if there are others

/* A manager has refused a call, or none can be reached. `code` is one of Connect's: "not_found". After "deadline_exceeded" the call may
 * have happened: `call` with `key`, the idempotency key of the call, repeats it. */
export class ReeveError extends Error {
  constructor(code, message) {
    super(`${code}: ${message}`);
    this.name = "ReeveError";
    this.code = code;
    this.problem = message;
  }
}

/* A task has ended without a result. `task` is the task as the contract describes it. */
export class TaskFailed extends Error {
  constructor(task) {
    const status = (task.status ?? "").replace("TASK_STATUS_", "").toLowerCase();
    super(`task ${task.id} is ${status}: ${task.lastError ?? ""}`);
    this.name = "TaskFailed";
    this.task = task;
  }
}

/* The user's name; its number if it has none, as in some containers. */
function userName() {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid());
  }
}

/* URLs of managers as an array. */
function checkUrls(urls) {
  urls = [urls].flat();
  if (!urls.length) throw new TypeError("no URL of a manager is given");
  for (const url of urls)
    if (!/^https?:\/\//.test(url))
      throw new TypeError(`"${url}" is no URL for calls by HTTP: they are like "http://host:7172" (reeve-manager --http)`);
  return urls;
}

/* The access token of the environment, as for Reeve's own programs, and the file that has it; or undefined. */
function environmentToken() {
  const { REEVE_ACCESS_TOKEN: token, REEVE_ACCESS_TOKEN_FILE: file, REEVE_ATTEMPT_ACCESS_TOKEN: attempt } = process.env;
  return !token && file ? { token: tokenIn(file), tokenFile: file } : { token: token || attempt };
}

function tokenIn(file) {
  return readFileSync(file, "ascii").trim();
}

/* Details or a result: a text, or a value that becomes JSON; without a value an empty text. */
export function textOf(value) {
  return typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);
}

const BINARY = "data:application/octet-stream;base64,"; // of a result that is no text, has a NUL, or begins like this

/* The text that stands for a result: bytes (a Uint8Array), or as in textOf. */
export function resultText(value) {
  const text = value instanceof Uint8Array ? value : textOf(value);
  return typeof text === "string" && !text.startsWith(BINARY) && !text.includes("\0") ? text : BINARY + Buffer.from(text).toString("base64");
}

/* The result of a task that has ended: a text, or a Buffer if its handler has returned a binary one. Throws TaskFailed, or a ReeveError
 * if the manager has omitted the result. */
function resultOf(task) {
  if (task.status !== "TASK_STATUS_COMPLETED") throw new TaskFailed(task);
  const length = task.omitted?.resultBytes;
  if (length) {
    const problem = `the result of task ${task.id} has ${length} bytes, too long for the manager's messages (--max-message)`;
    throw new ReeveError("failed_precondition", problem);
  }
  const text = task.result ?? "";
  if (!text.startsWith(BINARY)) return text;
  const bytes = Buffer.from(text.slice(BINARY.length), "base64");
  const decoded = bytes.toString();
  return decoded.startsWith(BINARY) && Buffer.from(decoded).equals(bytes) ? decoded : bytes;
}

/* The message in the content of an answer. A proxy's page is none. */
function answerIn(text) {
  const answer = JSON.parse(text);
  if (typeof answer !== "object" || !answer || Array.isArray(answer)) throw new Error("the answer is not a manager's: it is no object");
  return answer;
}

/* How many milliseconds a call may wait until a time. */
function waitLeft(end) {
  return Math.min(Math.max(end - performance.now(), 0), WAIT_MS);
}

/* Calls one of some managers of a database: the first that answers. `urls`: "http://host:port", or an array of them. `token`: an
 * access token; by default that of the environment. `timeout`: milliseconds in which a call must be answered, with all tries; long
 * messages have more. */
export class Client {
  #agents = { "http:": new http.Agent({ keepAlive: true }), "https:": new https.Agent({ keepAlive: true }) };
  #current = 0; // of the URLs
  #tokenFile;

  constructor(urls, { token, tokenFile, actor, timeout = 30000 } = {}) {
    this.urls = checkUrls(urls);
    ({ token: this.token, tokenFile: this.#tokenFile } = token ? { token, tokenFile } : environmentToken());
    this.actor = actor ?? `${userName()}@${hostname()}`;
    this.timeout = timeout;
  }

  /* What another thread needs to make the same client. */
  get settings() {
    return [this.urls, { token: this.token, tokenFile: this.#tokenFile, actor: this.actor, timeout: this.timeout }];
  }

  /* Calls "TaskService/Get" with a message as JSON has it, and resolves to the answer. Repeats the call until the timeout, at the next
   * manager if one does not answer. Calls carry an idempotency key, `key` or a new one. If it is false, there is none, and a call that
   * a manager may have is not repeated. `again`: a function of the milliseconds left; it returns fields for a repetition. Aborting
   * `hurry` makes the call be repeated now, if no answer has come. */
  async call(method, request = {}, { timeout = this.timeout, key = randomUUID(), again, hurry } = {}) {
    let body = JSON.stringify(request), unknown = false;
    const end = performance.now() + timeout + body.length / BYTES_PER_MS;
    for (let pause = 50; ; ) {
      const current = this.#current, { token } = this;
      let problem, sent = false, stale = false;
      try {
        return await this.#callOnce(this.urls[current], method, body, this.#share(request, end), key, hurry);
      } catch (error) {
        if (error instanceof TypeError) throw error; // the message, the token or the actor cannot be sent
        problem = error;
        if (!(error instanceof ReeveError)) {
          ({ sent = true, stale = false } = error);
          problem = new ReeveError("unavailable", `${this.urls[current]}: ${error.message}`);
        }
      }
      const hurried = hurry?.aborted;
      if (hurried) hurry = undefined;
      unknown ||= sent;
      if (problem.code === "unauthenticated" && this.#hasNewToken(token)) continue;
      if (["unavailable", "deadline_exceeded"].includes(problem.code) && !stale && !hurried && this.#current === current)
        this.#current = (current + 1) % this.urls.length; // unless another call has done so
      const final = !TRANSIENT.includes(problem.code);
      if (final || (sent && key === false) || performance.now() + pause > end) {
        if (unknown && !final) problem = new ReeveError("deadline_exceeded", `the call may have happened: ${problem.problem}`);
        throw Object.assign(problem, { key });
      }
      if (!stale) {
        await sleep(pause); // else at once, on a new connection
        pause = Math.min(2 * pause, 1000);
      }
      if (again) request = { ...request, ...again(end - performance.now()) };
      body = JSON.stringify(request);
    }
  }

  /* How long a manager may take to answer: with several managers, a share of the time left. */
  #share(request, end) {
    const left = Math.max(end - performance.now(), 1), count = this.urls.length;
    const wait = Number(request.waitMs ?? request.wait_ms ?? 0);
    return count === 1 ? left : Math.min(left, wait + Math.max((left - wait) / (2 * count), FAILOVER_MS));
  }

  /* Reads the token again that a manager has refused. */
  #hasNewToken(refused) {
    try {
      if (this.token === refused && this.#tokenFile) this.token = tokenIn(this.#tokenFile);
    } catch {
      // it is being replaced
    }
    return this.token !== refused;
  }

  async #callOnce(base, method, body, ms, key, signal) {
    const url = new URL(`/reeve.v1.${method}`, base);
    const headers = {
      "content-type": "application/json",
      "connect-protocol-version": "1",
      "connect-timeout-ms": String(Math.ceil(ms)),
      "reeve-actor": Buffer.from(this.actor).toString("latin1"), // UTF-8 on the line
    };
    if (key !== false) headers["idempotency-key"] = key;
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    const agent = key === false ? false : this.#agents[url.protocol]; // false: a new connection, which is not stale
    const { status, text } = await post(url, { agent, headers, signal }, body, ms);
    if (status === 200) return answerIn(text);
    let problem;
    try {
      problem = answerIn(text);
    } catch {
      problem = {};
    }
    const code = problem.code ?? (status >= 500 || [408, 425, 429].includes(status) ? "unavailable" : "unknown");
    // 413: the message is too long, and stays so
    throw new ReeveError(status === 413 ? "invalid_argument" : code, problem.message ?? `HTTP status ${status}`);
  }

  /* Creates a task and resolves to its id. `details`: a text, or a value that becomes JSON. `fields`: those of TaskSpec
   * (proto/reeve/v1/task.proto), such as queue, key, delayMs, priority, maxAttempts. */
  async submit(type, details = "", fields = {}) {
    return (await this.submitAll([{ ...fields, type, details }]))[0];
  }

  /* Creates many tasks in one call and resolves to their ids. */
  async submitAll(tasks, options) {
    const specs = tasks.map((task) => ({ ...task, details: textOf(task.details) }));
    return (await this.call("TaskService/Submit", { tasks: specs }, options)).tasks.map((task) => task.id);
  }

  /* Resolves to a task as the contract describes it. */
  async get(id) {
    return (await this.call("TaskService/Get", { id })).task;
  }

  /* Waits until a task has ended, and resolves to its result. Throws TaskFailed, or a ReeveError "deadline_exceeded" with the task's
   * `id` if it has not ended in `timeout` milliseconds. */
  async wait(id, { timeout = Infinity } = {}) {
    const end = performance.now() + timeout;
    const again = () => ({ waitMs: Math.floor(waitLeft(end)) });
    for (;;) {
      const begin = performance.now(), left = waitLeft(end);
      const grace = left === WAIT_MS ? this.timeout : Math.min(this.timeout, 5000);
      let answer = {};
      try {
        answer = await this.call("TaskService/Wait", { ids: [id], ...again() }, { timeout: left + grace, again });
      } catch (error) {
        if (!TRANSIENT.includes(error.code) || performance.now() < end) throw error;
      }
      if (answer.ended?.length) return resultOf(answer.ended[0]);
      if (performance.now() >= end)
        throw Object.assign(new ReeveError("deadline_exceeded", `task ${id} has not ended`), { id });
      if (performance.now() - begin < left) await sleep(100); // the manager stops
    }
  }

  /* Like submit and then wait, in one call if the task ends within 20 seconds. It is the same task in all tries of the call. */
  async submitAndWait(type, details = "", fields = {}, { timeout = Infinity } = {}) {
    const end = performance.now() + timeout;
    const left = waitLeft(end);
    const request = { tasks: [{ ...fields, type, details: textOf(details) }], waitMs: Math.floor(left) };
    const answer = await this.call("TaskService/SubmitAndWait", request, { timeout: left + this.timeout });
    if (answer.ended?.length) return resultOf(answer.ended[0]);
    return this.wait(answer.tasks[0].id, { timeout: Math.max(end - performance.now(), 0) });
  }

  /* Closes idle connections. */
  close() {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }
}

/* A manager answers within a time from when it has the message. Each further part of the answer has as long. An error has `sent`
 * (a manager may have the message) and `stale` (it may have closed the connection before). */
function post(url, options, body, ms) {
  const quiet = ms + Math.min(ms / 2, 1000) + Buffer.byteLength(body) / BYTES_PER_MS;
  return new Promise((resolve, reject) => {
    const { request } = url.protocol === "https:" ? https : http;
    let timer, sent = false, timedOut = false;
    const wait = (time) => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        timedOut = true;
        call.destroy(new Error("no answer in time"));
      }, time);
    };
    const fail = (error) => reject(Object.assign(error, { sent, stale: call.reusedSocket && !timedOut }));
    const begin = () => {
      sent = true;
      wait(quiet);
    };
    const call = request(url, { method: "POST", ...options }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part) => {
        text += part;
        wait(quiet);
      });
      response.on("end", () => resolve({ status: response.statusCode, text }));
      response.on("error", fail);
    });
    wait(ms); // until it is connected
    call.on("socket", (socket) => (socket.connecting ? socket.once(url.protocol === "https:" ? "secureConnect" : "connect", begin) : begin()));
    call.on("error", fail);
    call.on("close", () => clearTimeout(timer));
    call.end(body);
  });
}
