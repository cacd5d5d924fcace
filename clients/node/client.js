/* Calls of a manager, by the Connect protocol with JSON, and the everyday ones: submit, wait, get. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { hostname, userInfo } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

/* Codes after which the same call may succeed later; a call keeps its idempotency key then. */
export const TRANSIENT = ["unavailable", "resource_exhausted", "aborted"];
const WAIT_MS = 20000;

/* A manager has refused a call, or none can be reached. `code` is one of Connect's: "not_found". */
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

/* The access token of the environment, as for Reeve's own programs; or undefined. */
function environmentToken() {
  const { REEVE_ACCESS_TOKEN: token, REEVE_ACCESS_TOKEN_FILE: file, REEVE_ATTEMPT_ACCESS_TOKEN: attempt } = process.env;
  return token || (file ? readFileSync(file, "ascii").trim() : attempt);
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

/* The result of a task that has ended: a text, or a Buffer if its handler has returned a binary one. Throws TaskFailed. */
function resultOf(task) {
  if (task.status !== "TASK_STATUS_COMPLETED") throw new TaskFailed(task);
  const text = task.result ?? "";
  if (!text.startsWith(BINARY)) return text;
  const bytes = Buffer.from(text.slice(BINARY.length), "base64");
  const decoded = bytes.toString();
  return decoded.startsWith(BINARY) && Buffer.from(decoded).equals(bytes) ? decoded : bytes;
}

/* How many milliseconds a call may wait until a time. */
function waitLeft(end) {
  return Math.min(Math.max(end - performance.now(), 0), WAIT_MS);
}

/* Calls one of some managers of a database: the first that answers. `urls`: "http://host:port", or an array of them. `token`: an
 * access token; by default that of the environment. `timeout`: milliseconds in which a call must be answered, with all tries. */
export class Client {
  #agents = { "http:": new http.Agent({ keepAlive: true }), "https:": new https.Agent({ keepAlive: true }) };
  #first = 0; // of the URLs

  constructor(urls, { token, actor, timeout = 30000 } = {}) {
    this.urls = checkUrls(urls);
    this.token = token ?? environmentToken();
    this.actor = actor ?? `${userName()}@${hostname()}`;
    this.timeout = timeout;
  }

  /* What another thread needs to make the same client. */
  get settings() {
    return [this.urls, { token: this.token, actor: this.actor, timeout: this.timeout }];
  }

  /* Calls "TaskService/Get" with a message as JSON has it, and resolves to the answer. Repeats what may be repeated until the
   * timeout: calls carry an idempotency key, `key` or a new one; none if it is false. `again`: fields that a repetition has. Aborting
   * `hurry` makes the call be repeated now, if no answer has come. */
  async call(method, request = {}, { timeout = this.timeout, key = randomUUID(), again = {}, hurry } = {}) {
    const end = performance.now() + timeout;
    for (let pause = 50; ; pause = Math.min(2 * pause, 1000)) {
      try {
        return await this.#callOnce(method, request, end, key, hurry);
      } catch (error) {
        if (hurry?.aborted) hurry = undefined;
        else if (!(error instanceof ReeveError)) this.#first = (this.#first + 1) % this.urls.length;
        const transient = !(error instanceof ReeveError) || TRANSIENT.includes(error.code);
        if (!transient || performance.now() + pause > end)
          throw error instanceof ReeveError ? error : new ReeveError("unavailable", `${this.urls[this.#first]}: ${error.message}`);
      }
      request = { ...request, ...again };
      await sleep(pause);
    }
  }

  async #callOnce(method, request, end, key, signal) {
    const left = Math.max(end - performance.now(), 1);
    const url = new URL(`/reeve.v1.${method}`, this.urls[this.#first]);
    const headers = {
      "content-type": "application/json",
      "connect-protocol-version": "1",
      "connect-timeout-ms": String(Math.ceil(left)),
      "reeve-actor": this.actor,
    };
    if (key) headers["idempotency-key"] = key;
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    const { status, text } = await post(url, { agent: this.#agents[url.protocol], headers, signal }, JSON.stringify(request), left + 1000);
    if (status === 200) return JSON.parse(text);
    let problem;
    try {
      problem = JSON.parse(text);
    } catch {
      problem = {};
    }
    throw new ReeveError(problem.code ?? (status >= 500 ? "unavailable" : "unknown"), problem.message ?? `HTTP status ${status}`);
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
    for (;;) {
      const left = waitLeft(end);
      const answer = await this.call("TaskService/Wait", { ids: [id], waitMs: Math.floor(left) }, { timeout: left + this.timeout });
      if (answer.ended?.length) return resultOf(answer.ended[0]);
      if (performance.now() >= end)
        throw Object.assign(new ReeveError("deadline_exceeded", `task ${id} has not ended`), { id });
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

function post(url, options, body, timeout) {
  return new Promise((resolve, reject) => {
    const { request } = url.protocol === "https:" ? https : http;
    const timer = setTimeout(() => call.destroy(new Error("no answer in time")), timeout);
    const call = request(url, { method: "POST", ...options }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part) => (text += part));
      response.on("end", () => resolve({ status: response.statusCode, text }));
      response.on("error", reject);
    });
    call.on("error", reject);
    call.on("close", () => clearTimeout(timer));
    call.end(body);
  });
}
