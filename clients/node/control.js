/* The calls of a worker, on a thread of their own: registers, fetches, sends heartbeats, keeps the lease, and reports results. */
import { write } from "node:fs";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";

import { BYTES_PER_MS, Client, ReeveError, TRANSIENT } from "./client.js";
import { News } from "./news.js";

const FAULTS = ["internal", "unknown"]; // of a manager, or of a proxy before it: they do not say that a later call is refused, too
const AGAIN = [...TRANSIENT, ...FAULTS, "failed_precondition"]; // errors after which a later call may succeed
const MARGIN = 0.2; // of the lease, for handlers to stop before its end; then none begins
const EXIT_MARGIN_MS = 150; // before the lease's end, at which the process ends
const TICK_MS = 50;
const FETCH_MS = 5000;
const CALL_MAX = 100; // results or attempts in a call, and their bytes: managers limit the size of a message
const CALL_BYTES = 2 << 20;
const CALL_REST = 8192; // of a message, beside these
const HELD_BYTES = 64 << 20; // of results that no manager has acknowledged: more tasks are not fetched
const REPORT_MS = 30000;
const REPORT_LAST_MS = 10000; // how long to wait for managers at the end
const NEWS_MS = 1000; // between two messages about an attempt

const { name, queues, types } = workerData;
const client = new Client(...workerData.client);
const attempts = new Map(); // in flight: received, running, or with a result that no manager has acknowledged
let { concurrency } = workerData;
let incarnation, lease, interval, leaseEnd, fetchId, waitingFetch, seq, maxResult, maxCall, giveUpAt;
let draining = false, paused = false, over = false, lost = false, ending = false;
let completed = 0, failed = 0;
const hurry = new AbortController(); // aborted: the worker drains
let refusal; // the error of a call that will not succeed: the worker ends, as in a drain

const keyOf = ({ taskId, token }) => `${taskId} ${token}`;
const running = () => [...attempts.values()].filter((attempt) => !attempt.result).length;
const heldBytes = () => [...attempts.values()].reduce((sum, { bytes }) => sum + bytes, 0);
const bytesOf = (value) => Buffer.byteLength(JSON.stringify(value));
const mayBegin = () => performance.now() < leaseEnd - MARGIN * lease;

/* The first of some objects for a call: as many as it may have, but at least one. */
function portion(items) {
  let count = 0, size = 0;
  while (count < Math.min(items.length, CALL_MAX)) {
    size += bytesOf(items[count]) + 1;
    if (count && size > Math.min(maxCall, CALL_BYTES)) break;
    count++;
  }
  return items.slice(0, count);
}

/* Writes a line to standard error, and calls back when that is done, or cannot be done within a moment. */
function tellError(text, done = () => {}) {
  write(2, `reeve: ${text}\n`, done);
  setTimeout(done, 100);
}

/* The other thread may be busy for ever, and nobody may read standard error. */
function endProcess(text) {
  if (!ending) tellError(text, () => process.kill(process.pid, "SIGKILL"));
  ending = true;
}

function stop(attempt, why) {
  if (attempt.why || attempt.result) return;
  attempt.why = why;
  parentPort.postMessage({ stop: attempt.key });
}

/* --- the incarnation --- */

/* Resolves to whether it has: a worker that is stopped before gives up. */
async function register(previous) {
  for (let said = false; ; said = true) {
    try {
      const { maxMessageBytes } = await client.call("AdminService/Ping", {}, { timeout: 5000 });
      const sent = performance.now();
      const request = { name, host: hostname(), pid: process.pid, concurrency: Math.max(concurrency, 1), queues, types, previous };
      const answer = await client.call("WorkerService/Register", request, { timeout: 5000 });
      incarnation = answer.incarnation;
      lost = false; // until here, further heartbeats of the former incarnation may have said that it is lost
      lease = answer.leaseMs;
      interval = answer.heartbeatMs;
      leaseEnd = sent + lease;
      maxResult = answer.maxResultBytes;
      maxCall = maxMessageBytes - CALL_REST;
      fetchId = seq = 0;
      return true;
    } catch (error) {
      if (![...TRANSIENT, ...FAULTS, "already_exists"].includes(error.code)) throw error;
      // A former process with this name counts as alive until its lease has ended.
      if (!said) tellError(`the worker cannot register yet: ${error.message}`);
    }
    if (finished()) return false;
    await sleep(1000);
  }
}

/* The incarnation has ended. Its handlers must stop before the next one begins; their results are still reported. */
async function replaceIncarnation() {
  for (const attempt of attempts.values()) stop(attempt, "LEASE_ENDED");
  while (running()) await sleep(TICK_MS);
  return register(incarnation);
}

/* --- the lease --- */

/* Stops handlers whose time is over, and ends the process if one does not stop. */
function watch() {
  const now = performance.now();
  for (const attempt of attempts.values()) {
    if (attempt.result) continue;
    if (now >= leaseEnd - MARGIN * lease) stop(attempt, "LEASE_ENDED");
    if (now >= attempt.timeoutAt) stop(attempt, "TIMEOUT");
    if (now >= Math.min(leaseEnd, attempt.lostAt) - Math.min(EXIT_MARGIN_MS, lease / 12))
      endProcess(`task ${attempt.taskId} still runs at the end of its lease or attempt: the process ends`);
  }
}

async function beatOnce() {
  const sent = performance.now();
  const request = {
    incarnation,
    seq: ++seq,
    inFlight: [...attempts.values()].map(({ taskId, token }) => ({ taskId, token })),
    highestFetchId: fetchId,
    waitingFetchIds: waitingFetch ? [waitingFetch] : [],
    running: running(),
    mode: `WORKER_MODE_${draining ? "DRAINING" : paused ? "PAUSED" : "RUNNING"}`,
    concurrency,
    noSlots: !concurrency,
    completed,
    failed,
  };
  try {
    const answer = await client.call("WorkerService/Heartbeat", request, { timeout: interval });
    if (request.incarnation !== incarnation) return;
    if (answer.lost) {
      lost = true;
      for (const attempt of attempts.values()) stop(attempt, "LEASE_ENDED");
      return;
    }
    leaseEnd = Math.max(leaseEnd, sent + lease);
    obey(answer.commands ?? [], true);
  } catch {
    // the next one follows; without any, the lease ends
  }
}

async function beat() {
  for (let next = 0; !over; await sleep(TICK_MS)) {
    if (performance.now() >= next) {
      next = performance.now() + (paused ? Math.min(interval, 1000) : interval);
      beatOnce();
    }
    watch();
  }
}

function obey(commands, allInEffect) {
  const kinds = commands.map(({ kind }) => kind.replace("WORKER_COMMAND_KIND_", ""));
  if (allInEffect) paused = kinds.includes("PAUSE");
  commands.forEach((command, i) => {
    const attempt = attempts.get(keyOf({ taskId: command.taskId ?? "0", token: command.token ?? "0" }));
    switch (kinds[i]) {
      case "ABANDON":
        if (attempt) attempt.abandoned = true;
        if (attempt?.result) attempts.delete(attempt.key);
      // falls through
      case "CANCEL":
        if (attempt) stop(attempt, "CANCELLED");
        break;
      case "STOP":
        for (const other of attempts.values()) stop(other, "RETURNED");
      // falls through
      case "DRAIN":
        drain();
        break;
      case "PAUSE":
      case "RESUME":
        paused = kinds[i] === "PAUSE";
        break;
      case "CONCURRENCY":
        concurrency = Number(command.value ?? 0);
        break;
    }
  });
}

/* --- tasks --- */

/* The waiting Fetch is repeated without a wait: its answer says which tasks it has got. */
function drain() {
  draining = true;
  hurry.abort();
}

function refuse(error) {
  refusal ??= error;
  drain();
}

/* Whether it drains and holds nothing more, or managers do not take the last results. */
function finished() {
  if (!draining || running()) return false;
  giveUpAt ??= performance.now() + REPORT_LAST_MS + heldBytes() / BYTES_PER_MS;
  if (attempts.size && performance.now() >= giveUpAt) {
    refuse(new ReeveError("unavailable", `${attempts.size} results could not be reported; their tasks will run again`));
    attempts.clear();
  }
  return !attempts.size;
}

/* How many tasks it can begin. */
function freeSlots() {
  return draining || paused || !mayBegin() || heldBytes() > HELD_BYTES ? 0 : concurrency - running();
}

async function fetchOnce(slots) {
  const request = { incarnation, fetchId: ++fetchId, slots, queues, types, waitMs: FETCH_MS };
  const sent = performance.now();
  waitingFetch = fetchId;
  const answer = await fetchAnswer(request);
  waitingFetch = undefined;
  if (answer.incarnation !== incarnation) return;
  for (const assignment of answer.assignments ?? []) begin(assignment, sent + Number(answer.parkedMs ?? 0));
  obey(answer.commands ?? [], false);
}

/* Sends a Fetch until it is answered: a manager may have assigned tasks to it. */
async function fetchAnswer(request) {
  const again = (left) => ({ resend: true, waitMs: draining ? 0 : Math.floor(Math.min(FETCH_MS, Math.max(left - 2000, 0))) });
  for (;;) {
    try {
      return await client.call("WorkerService/Fetch", request, { timeout: FETCH_MS + 3000, again, hurry: hurry.signal });
    } catch (error) {
      lost ||= error.code === "failed_precondition";
      if (!AGAIN.includes(error.code)) refuse(error);
      if (FAULTS.includes(error.code)) {
        tellError(`the worker cannot fetch tasks, and tries again: ${error.message}`);
        await sleep(1000);
      }
    }
    if (lost || draining) return {};
    request.resend = true;
  }
}

/* Starts the handler of a task, or returns the task if it came too late. */
function begin(assignment, countedFrom) {
  const { taskId, token = "0" } = assignment;
  const key = keyOf({ taskId, token });
  const now = performance.now();
  const attempt = {
    key,
    taskId,
    token,
    begun: now,
    bytes: 0, // of the result
    news: new News(),
    newsAt: 0, // when they may be sent
    lostAt: countedFrom + Number(assignment.expiresInMs ?? 0),
    timeoutAt: assignment.timeoutMs ? now + Number(assignment.timeoutMs) : Infinity,
  };
  attempts.set(key, attempt);
  if (draining || !mayBegin() || now >= attempt.lostAt - 1000) setResult(attempt, { outcome: "OUTCOME_RETURNED" });
  else parentPort.postMessage({ begin: { key, assignment } });
}

function setResult(attempt, result) {
  const { taskId, token } = attempt;
  attempt.result = { ...result, taskId, token };
  attempt.bytes = bytesOf(attempt.result);
}

/* A result that is longer than managers take is a failure. */
function limit(result) {
  const length = Buffer.byteLength(result.result ?? "");
  if (length <= maxResult && !(length && bytesOf(result) > maxCall)) return result;
  const error = `the result of ${length} bytes is longer than the manager accepts (${maxResult} bytes)`;
  return { ...result, result: undefined, outcome: "FATAL", error, errorCode: "result-too-long" };
}

/* The other thread has run an attempt. */
function finish(attempt, result) {
  if (attempt.why === "TIMEOUT" && result.outcome === "COMPLETED")
    result = { outcome: "FAILED", error: "the handler has returned after its timeout" };
  if (attempt.why && result.outcome !== "COMPLETED") result.outcome = attempt.why === "TIMEOUT" ? "FAILED" : attempt.why;
  if (attempt.why === "TIMEOUT") result.errorCode = "timeout";
  result = limit({ ...attempt.news.fields(), ...result, runMs: Math.round(performance.now() - attempt.begun) });
  completed += result.outcome === "COMPLETED";
  failed += result.outcome === "FAILED" || result.outcome === "FATAL";
  setResult(attempt, { ...result, outcome: `OUTCOME_${result.outcome}` });
  if (attempt.abandoned) attempts.delete(attempt.key);
}

/* Sends what running handlers report. */
async function tell() {
  for (; !over; await sleep(NEWS_MS / 4)) {
    const now = performance.now();
    const told = [...attempts.values()].filter(({ result, news, newsAt }) => !result && !news.empty && now >= newsAt);
    for (const attempt of told) attempt.newsAt = now + NEWS_MS;
    const all = told.map(({ taskId, token, news }) => ({ taskId, token, ...news.fields() }));
    while (all.length) {
      const messages = all.splice(0, portion(all).length), tellers = told.splice(0, messages.length);
      try {
        const { acks = [] } = await client.call("WorkerService/Progress", { incarnation, attempts: messages }, { timeout: 5000 });
        acks.forEach(({ status }, i) => {
          if (status !== "RESULT_STATUS_LATER") tellers[i].news.acknowledged(messages[i]);
        });
      } catch {
        // the next message has it, or the result
      }
    }
  }
}

async function report() {
  for (let wait = 20; ; await sleep(wait)) {
    const all = [...attempts.values()].filter((attempt) => attempt.result);
    const ended = all.slice(0, portion(all.map((attempt) => attempt.result)).length);
    if (!ended.length) wait = 20;
    if (!ended.length && over) return;
    if (!ended.length) continue;
    wait = (await reportOnce(ended)) ? Math.min(2 * wait, 1000) : 20;
  }
}

/* Resolves to whether some of these must be reported again: after all others. One that a manager finds invalid is replaced by a fatal
 * error. */
async function reportOnce(ended) {
  let answer, problem;
  try {
    answer = await client.call("WorkerService/Report", { incarnation, results: ended.map(({ result }) => result) }, { timeout: REPORT_MS });
  } catch (error) {
    if (error.code === "invalid_argument" && ended.length > 1) {
      let later = false;
      for (const attempt of ended) later = (await reportOnce([attempt])) || later;
      return later;
    }
    problem = error;
  }
  if (problem && problem.code !== "invalid_argument" && !AGAIN.includes(problem.code)) refuse(problem);
  if (FAULTS.includes(problem?.code)) tellError(`a report of ${ended.length} results failed, and is tried again: ${problem.message}`);
  const acks = new Map((answer?.acks ?? []).map((ack) => [keyOf({ token: "0", ...ack }), ack.status]));
  let later = false;
  for (const attempt of ended) {
    const status = acks.get(attempt.key);
    if (!attempts.has(attempt.key)) continue; // it is abandoned
    if (problem?.code === "invalid_argument") setResult(attempt, { outcome: "OUTCOME_FATAL", error: `the result was refused: ${problem.problem}` });
    else if (problem ? !AGAIN.includes(problem.code) : status && status !== "RESULT_STATUS_LATER") {
      attempts.delete(attempt.key);
      continue;
    }
    attempts.delete(attempt.key);
    attempts.set(attempt.key, attempt);
    later = true;
  }
  return later;
}

async function work() {
  const others = [beat(), report(), tell()];
  while (!finished()) {
    const slots = freeSlots();
    if (lost) await replaceIncarnation();
    else if (slots > 0) await fetchOnce(slots);
    else await sleep(20);
  }
  over = true;
  if (refusal) return; // a call may still be open
  await Promise.all(others);
  try {
    await client.call("WorkerService/Leave", { incarnation, reason: "stopped" }, { timeout: 10000 });
  } catch (error) {
    tellError(`the worker cannot leave: ${error.message}`);
  }
}

async function main() {
  parentPort.on("message", ({ stop: stopping, key, news, result }) => {
    const attempt = attempts.get(key);
    if (stopping) drain();
    if (news) attempt?.news.add(news);
    if (result && attempt) finish(attempt, result);
  });
  if (await register("0")) await work();
  if (refusal) throw refusal;
  client.close();
  parentPort.close();
}

await main();
