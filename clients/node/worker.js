/*
 * A worker: runs functions as handlers of tasks, on this thread. A thread of its own (control.js) has all calls: a handler that keeps
 * this thread busy delays no heartbeat. It also ends the process if a handler still runs when the lease or its attempt ends, since
 * another worker may run the task from then on.
 */
import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";

import { resultText } from "./client.js";
import { clean, News } from "./news.js";

const ERROR_BYTES = 4096; // of an error, as of a program's; managers refuse results with much longer ones
const TRACE_BYTES = 65536;
const NEWS_MS = 1000; // between two messages about an attempt

/* An error's name, as managers take it. */
function codeOf(error) {
  const name = String(error?.name ?? "error");
  return /[\u0000-\u001f\u007f]/.test(name) ? "error" : clean(name, 255);
}

/* The fields of the result of an attempt whose handler has thrown: anything, also what has no text. */
function failureOf(error) {
  const outcome = error instanceof Fatal ? "FATAL" : "FAILED";
  try {
    const result = { outcome, error: clean(error?.message ?? error, ERROR_BYTES) };
    // A delay of 0 is that of the policy.
    if (error instanceof Retry) result.retryInMs = error.delay === undefined ? 0 : Math.max(Math.round(Number(error.delay)), 1);
    else if (outcome === "FAILED") Object.assign(result, { errorCode: codeOf(error), stackTrace: clean(error?.stack ?? "", TRACE_BYTES) });
    return result;
  } catch {
    return { outcome, error: "the handler's error has no text" };
  }
}

/* Throw it in a handler: the task has failed and must not run again. */
export class Fatal extends Error {}

/* Throw it in a handler: the task has failed and runs again, after `delay` milliseconds if given. */
export class Retry extends Error {
  constructor(message, delay) {
    super(message);
    this.delay = delay;
  }
}

/* One attempt. `signal` is an AbortSignal: a long handler passes it on or checks it, and returns soon once it is aborted. */
class Task {
  #news = new News();
  #send;
  #sentAt = -NEWS_MS;
  #timer;

  constructor(assignment, signal, send) {
    this.id = assignment.taskId;
    this.queue = assignment.queue ?? "";
    this.type = assignment.type ?? "";
    this.token = assignment.token;
    this.key = assignment.key ?? "";
    this.stage = assignment.stage ?? "";
    this.details = assignment.details ?? "";
    this.attempt = assignment.attempt ?? 0;
    this.maxAttempts = assignment.maxAttempts ?? 0;
    this.traceparent = assignment.traceparent ?? "";
    this.signal = signal;
    this.#send = send;
  }

  /* Reports how far the handler is, from 0 to 100, and what it does. Managers get it within about two seconds. */
  progress(percent, message) {
    this.#news.report(percent, message);
    this.#tell();
  }

  /* Adds a line to the task's log, or several. Of a task the last 1,000 lines or 64 KiB are kept. */
  log(text) {
    this.#news.log(text);
    this.#tell();
  }

  /* A handler that keeps this thread busy delays the timer: then a later report sends what there is. */
  #tell() {
    const left = this.#sentAt + NEWS_MS - performance.now();
    if (left <= 0) this.#sendNow();
    else this.#timer ??= setTimeout(() => this.#sendNow(), left);
  }

  #sendNow() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sentAt = performance.now();
    this.#send(this.#news.take());
  }

  /* The handler has ended: what is left goes with its result. */
  _rest() {
    clearTimeout(this.#timer);
    this.#send = () => {};
    return this.#news.take();
  }

  /* The details, which are JSON. */
  json() {
    return JSON.parse(this.details);
  }
}

/* Runs handlers: worker.handle("greet", (task) => "hello " + task.details), then await worker.run(). */
export class Worker {
  #handlers = new Map();
  #running = new Map(); // by task and token
  #thread;
  #stopped = false;

  constructor(client, { concurrency = 1, name, queues = [] } = {}) {
    this.client = client;
    this.settings = { concurrency, name: name ?? `${hostname()}/${process.pid}`, queues };
  }

  /* Sets the handler of a type. It gets a Task and returns the result, or a promise of it: a text, a Uint8Array, undefined, or a
   * value that becomes JSON. Any error is a failure, which is retried. */
  handle(type, handler) {
    this.#handlers.set(type, handler);
  }

  /* Makes `run` resolve when the running handlers have ended. */
  stop() {
    this.#stopped = true;
    this.#thread?.postMessage({ stop: true });
  }

  /* Runs until `stop`, SIGTERM or SIGINT, or a worker command that drains it. Throws if managers refuse its calls, for example after
   * its token was revoked; its running handlers end before. */
  async run({ stopOnSignals = true } = {}) {
    const stop = () => this.stop();
    if (!this.#handlers.size) throw new Error("the worker has no handlers: it would take tasks of all types");
    if (stopOnSignals) for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, stop);
    this.#thread = new Thread(new URL("./control.js", import.meta.url), {
      workerData: { client: this.client.settings, ...this.settings, types: [...this.#handlers.keys()] },
    });
    this.#thread.on("message", ({ begin, stop: key }) => {
      if (begin) this.#execute(begin);
      else this.#running.get(key)?.abort();
    });
    if (this.#stopped) this.stop();
    try {
      await new Promise((resolve, reject) => {
        this.#thread.on("error", reject);
        this.#thread.on("exit", resolve);
      });
    } finally {
      for (const signal of ["SIGTERM", "SIGINT"]) process.off(signal, stop);
    }
  }

  async #execute({ key, assignment }) {
    const controller = new AbortController();
    let result;
    const task = new Task(assignment, controller.signal, (news) => this.#thread.postMessage({ key, news }));
    this.#running.set(key, controller);
    try {
      result = { outcome: "COMPLETED", result: resultText(await this.#handlers.get(assignment.type)(task)) };
    } catch (error) {
      result = failureOf(error);
    }
    this.#running.delete(key);
    this.#thread.postMessage({ key, news: task._rest(), result });
  }
}
