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

/* The access token of the environment, as for Reeve's own programs; or undefined. */
function environmentToken() {
  const { REEVE_ACCESS_TOKEN: token, REEVE_ACCESS_TOKEN_FILE: file, REEVE_ATTEMPT_ACCESS_TOKEN: attempt } = process.env;
  return token || (file ? readFileSync(file, "ascii").trim() : attempt);
}

/* Details or a result: a text, or a value that becomes JSON; without a value an empty text. */
export function textOf(value) {
  return typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);
}

/* Calls one of some managers of a database: the first that answers. `urls`: "http://host:port", or an array of them. `token`: an
 * access token; by default that of the environment. `timeout`: milliseconds in which a call must be answered, with all tries. */
export class Client {
  #agents = { "http:": new http.Agent({ keepAlive: true }), "https:": new https.Agent({ keepAlive: true }) };
  #first = 0; // of the URLs

  constructor(urls, { token, actor, timeout = 30000 } = {}) {
    this.urls = [urls].flat();
    this.token = token ?? environmentToken();
    this.actor = actor ?? `${userInfo().username}@${hostname()}`;
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

  /* Waits until a task has ended, and resolves to its result. Throws TaskFailed, or a ReeveError "deadline_exceeded" if it has not
   * ended in `timeout` milliseconds. */
  async wait(id, { timeout = Infinity } = {}) {
    const end = performance.now() + timeout;
    for (;;) {
      const left = Math.min(Math.max(end - performance.now(), 0), WAIT_MS);
      const answer = await this.call("TaskService/Wait", { ids: [id], waitMs: Math.floor(left) }, { timeout: left + this.timeout });
      const [task] = answer.ended ?? [];
      if (task && task.status !== "TASK_STATUS_COMPLETED") throw new TaskFailed(task);
      if (task) return task.result ?? "";
      if (performance.now() >= end) throw new ReeveError("deadline_exceeded", `task ${id} has not ended`);
    }
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
