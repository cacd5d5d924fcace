/* The calls of a worker, on a thread of their own: registers, fetches, sends heartbeats, keeps the lease, and reports results. */
import { writeSync } from "node:fs";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";

import { Client, TRANSIENT } from "./client.js";
import { News } from "./news.js";

const AGAIN = [...TRANSIENT, "deadline_exceeded", "failed_precondition"]; // errors after which a later call may succeed
const MARGIN = 0.2; // of the lease, for handlers to stop before its end
const TICK_MS = 50;
const FETCH_MS = 5000;
const CALL_MAX = 100; // results or attempts in a call, and their bytes: managers limit the size of a message
const CALL_BYTES = 2 << 20;
const NEWS_MS = 1000; // between two messages about an attempt

const { name, queues, types } = workerData;
const client = new Client(...workerData.client);
const attempts = new Map(); // in flight: received, running, or with a result that no manager has acknowledged
let { concurrency } = workerData;
let incarnation, lease, interval, leaseEnd, fetchId, waitingFetch, seq;
let draining = false, paused = false, over = false, lost = false;
let completed = 0, failed = 0;
const hurry = new AbortController(); // aborted: the worker drains
let refusal; // the error of a call that will not succeed: the worker ends, as in a drain

const keyOf = ({ taskId, token }) => `${taskId} ${token}`;
const running = () => [...attempts.values()].filter((attempt) => !attempt.result).length;

/* The first of some objects for a call: as many as it may have, but at least one. */
function portion(items) {
  let count = 0, size = 0;
  while (count < Math.min(items.length, CALL_MAX)) {
    size += Buffer.byteLength(JSON.stringify(items[count]));
    if (count && size > CALL_BYTES) break;
    count++;
  }
  return items.slice(0, count);
}

function stop(attempt, why) {
  if (attempt.why || attempt.result) return;
  attempt.why = why;
  parentPort.postMessage({ stop: attempt.key });
}

/* --- the incarnation --- */

async function register(previous) {
  for (;;) {
    try {
      const answer = await client.call("WorkerService/Register", {
        name, host: hostname(), pid: process.pid, concurrency, queues, types, previous,
      });
      incarnation = answer.incarnation;
      lost = false; // until here, further heartbeats of the former incarnation may have said that it is lost
      lease = answer.leaseMs;
      interval = answer.heartbeatMs;
      leaseEnd = performance.now() + lease;
      fetchId = seq = 0;
      return;
    } catch (error) {
      if (error.code !== "already_exists") throw error;
    }
    await sleep(1000); // a former process with this name counts as alive until its lease has ended
  }
}

/* The incarnation has ended. Its handlers must stop before the next one begins; their results are still reported. */
async function replaceIncarnation() {
  for (const attempt of attempts.values()) stop(attempt, "LEASE_ENDED");
  while (running()) await sleep(TICK_MS);
  await register(incarnation);
}

/* --- the lease --- */

/* Stops handlers whose time is over, and ends the process if one does not stop. */
function watch() {
  const now = performance.now();
  for (const attempt of attempts.values()) {
    if (attempt.result) continue;
    if (now >= leaseEnd - MARGIN * lease) stop(attempt, "LEASE_ENDED");
    if (now >= attempt.timeoutAt) stop(attempt, "TIMEOUT");
    if (now >= Math.min(leaseEnd, attempt.lostAt)) {
      writeSync(2, `reeve: task ${attempt.taskId} still runs at the end of its lease or attempt: the process ends\n`);
      process.kill(process.pid, "SIGKILL"); // the other thread may be busy for ever
    }
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
    completed,
    failed,
  };
  try {
    const answer = await client.call("WorkerService/Heartbeat", request, { timeout: interval, key: false });
    if (request.incarnation !== incarnation) return;
    if (answer.lost) lost = true;
    else leaseEnd = Math.max(leaseEnd, sent + lease);
    if (!answer.lost) obey(answer.commands ?? [], true);
  } catch {
    // the next one follows; without any, the lease ends
  }
}

async function beat() {
  for (let next = 0; !over; await sleep(TICK_MS)) {
    if (performance.now() >= next) {
      next = performance.now() + interval;
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

async function fetchOnce(slots) {
  const request = { incarnation, fetchId: ++fetchId, slots, queues, types, waitMs: FETCH_MS };
  const sent = performance.now();
  let answer = {};
  waitingFetch = fetchId;
  try {
    const again = { resend: true, get waitMs() { return draining ? 0 : FETCH_MS; } };
    answer = await client.call("WorkerService/Fetch", request, { timeout: FETCH_MS + 3000, key: false, again, hurry: hurry.signal });
  } catch (error) {
    lost ||= error.code === "failed_precondition";
    if (!AGAIN.includes(error.code)) refuse(error);
  }
  waitingFetch = undefined;
  if (answer.incarnation !== incarnation) return;
  for (const assignment of answer.assignments ?? []) begin(assignment, sent + Number(answer.parkedMs ?? 0));
  obey(answer.commands ?? [], false);
}

function begin(assignment, countedFrom) {
  const { taskId, token = "0" } = assignment;
  const key = keyOf({ taskId, token });
  const now = performance.now();
  attempts.set(key, {
    key,
    taskId,
    token,
    begun: now,
    news: new News(),
    newsAt: 0, // when they may be sent
    lostAt: countedFrom + Number(assignment.expiresInMs ?? 0),
    timeoutAt: assignment.timeoutMs ? now + Number(assignment.timeoutMs) : Infinity,
  });
  parentPort.postMessage({ begin: { key, assignment } });
}

/* The other thread has run an attempt. */
function finish(attempt, { outcome, ...result }) {
  if (attempt.why && outcome !== "COMPLETED") outcome = attempt.why === "TIMEOUT" ? "FAILED" : attempt.why;
  if (attempt.why === "TIMEOUT" && outcome === "FAILED") result.errorCode = "timeout";
  completed += outcome === "COMPLETED";
  failed += outcome === "FAILED" || outcome === "FATAL";
  const { taskId, token } = attempt;
  attempt.result = { ...attempt.news.fields(), ...result, taskId, token, outcome: `OUTCOME_${outcome}`, runMs: Math.round(performance.now() - attempt.begun) };
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
        const { acks = [] } = await client.call("WorkerService/Progress", { incarnation, attempts: messages }, { timeout: 5000, key: false });
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
  for (let pause = 20; ; await sleep(pause)) {
    const all = [...attempts.values()].filter((attempt) => attempt.result);
    const ended = all.slice(0, portion(all.map((attempt) => attempt.result)).length);
    pause = 20;
    if (!ended.length && over) return;
    if (!ended.length) continue;
    const later = await reportOnce(ended);
    pause = later ? Math.min(2 * later, 1000) : 20;
  }
}

/* Resolves to the pause before the next report, in milliseconds; 0: none. */
async function reportOnce(ended) {
  try {
    const answer = await client.call("WorkerService/Report", { incarnation, results: ended.map((attempt) => attempt.result) }, { key: false });
    let later = 0;
    for (const ack of answer.acks ?? [])
      if (ack.status === "RESULT_STATUS_LATER") later = 100;
      else attempts.delete(keyOf({ taskId: ack.taskId, token: ack.token ?? "0" }));
    return later;
  } catch (error) {
    if (!AGAIN.includes(error.code) && error.code !== "invalid_argument") {
      refuse(error);
      for (const attempt of ended) attempts.delete(attempt.key);
    }
    if (error.code !== "invalid_argument") return 100;
    if (ended.length > 1) for (const attempt of ended) await reportOnce([attempt]);
    else {
      const { taskId, token } = ended[0];
      ended[0].result = { taskId, token, outcome: "OUTCOME_FATAL", error: `the result was refused: ${error.problem}` };
    }
    return 0;
  }
}

async function main() {
  parentPort.on("message", ({ stop: stopping, key, news, result }) => {
    const attempt = attempts.get(key);
    if (stopping) drain();
    if (news) attempt?.news.add(news);
    if (result && attempt) finish(attempt, result);
  });
  await register("0");
  const others = [beat(), report(), tell()];
  while (!(draining && !attempts.size)) {
    const slots = draining || paused ? 0 : concurrency - running();
    if (lost) await replaceIncarnation();
    else if (slots > 0) await fetchOnce(slots);
    else await sleep(20);
  }
  over = true;
  await Promise.all(others);
  if (refusal) throw refusal;
  await client.call("WorkerService/Leave", { incarnation, reason: "stopped" });
  client.close();
  parentPort.close();
}

await main();
