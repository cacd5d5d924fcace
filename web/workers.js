// Workers: a list, and actions on one or all.
import { ask, buttons } from "./actions.js";
import { h, table } from "./dom.js";
import { duration, number, query, time, word } from "./format.js";
import { COLUMNS as TASK_COLUMNS } from "./tasks.js";

const EXECUTING = 1000, SHOWN = 5000;

const ACTIONS = [
  ["drain", "Drain", "will take no more tasks, finish the running ones, and leave"],
  ["pause", "Pause", "will take no more tasks until resumed"],
  ["resume", "Resume", "will take tasks again"],
  ["stop", "Stop", "will stop and return running tasks, and leave", true],
  ["scale", "Scale", "will run another number of tasks at once"],
];

export const title = (data, { filter }) => (filter.get("name") ? `Worker ${filter.get("name")}` : "Workers");
export const every = () => 3000;

/** Reads at least `most` workers, or all. `say` gets how many there are so far. */
async function list(call, all, most = Infinity, say = () => {}) {
  const workers = [];
  let after = "0";
  do {
    const answer = await call("AdminService/ListWorkers", { all, after });
    workers.push(...(answer.workers ?? []));
    after = answer.nextAfter ?? "0";
    say(workers.length);
  } while (after !== "0" && workers.length < most);
  return { workers, more: after !== "0" };
}

export async function load({ call, filter }) {
  const name = filter.get("name"), all = filter.get("gone") === "1";
  if (!name) return list(call, all, SHOWN);
  const { workers } = await list(call, all, all ? SHOWN : Infinity);
  const { tasks = [], nextBeforeId = "0" } = await call("TaskService/List", { status: "TASK_STATUS_EXECUTING", limit: EXECUTING });
  return { workers: workers.filter((w) => w.name === name), tasks: tasks.filter((t) => t.worker === name), moreTasks: nextBeforeId !== "0" };
}

const state = (w) => {
  const alive = w.state === "WORKER_STATE_ALIVE", name = alive ? word(w.mode, "WORKER_MODE_") || "alive" : word(w.state, "WORKER_STATE_");
  return h("span", { class: `status ${alive ? "completed" : w.state === "WORKER_STATE_LATE" ? "failed" : ""}` }, name);
};
const some = (names) => (names?.length ? names.join(", ") : "all");

export const WORKER_COLUMNS = [
  { head: "Worker", cell: (w) => h("a", { href: `#/workers${query({ name: w.name })}` }, w.name) },
  { head: "State", cell: (w) => [state(w), w.manual ? " pull client" : ""] },
  { head: "Host", cell: (w) => [w.host, w.pid ? ` (${w.pid})` : ""] },
  { head: "Slots busy", number: true, cell: (w) => `${number(w.holding)}/${number(w.concurrency)}` },
  { head: "Queues", cell: (w) => some(w.queues) },
  { head: "Types", cell: (w) => some(w.types) },
  { head: "Completed", number: true, cell: (w) => number(w.completed) },
  { head: "Failed", number: true, cell: (w) => number(w.failed) },
  { head: "Heartbeat", cell: (w) => time(w.heartbeatUs) },
  { head: "Runs for", number: true, cell: (w) => duration(w.uptimeMs) },
  { head: "Version", cell: (w) => w.version },
];
WORKER_COLUMNS.key = (w) => w.incarnation;

const obeys = (w) => w.state !== "WORKER_STATE_GONE" && !w.manual;

function control([action, button, effect, danger], name, workers, { call, refresh }) {
  ask({
    title: `${button}: ${name ? `worker ${name}` : "all workers"}`, button, danger, done: refresh,
    fields: action === "scale" ? [{ name: "concurrency", label: "Tasks at once, of each worker", type: "number", min: 0, max: 10000, step: 1, required: true, value: workers.find(obeys)?.concurrency ?? 1 }] : [],
    affected: async (say, signal) => {
      const read = (method, request) => call(method, request, { signal, reads: true }), count = (found) => say(`Counting… ${number(found)}`);
      const alive = (name ? workers : (await list(read, false, Infinity, count)).workers).filter(obeys);
      const slots = alive.reduce((sum, w) => sum + (w.concurrency ?? 0), 0);
      return `${number(alive.length)} ${alive.length === 1 ? "worker" : "workers"} with ${number(slots)} slots ${effect}.`;
    },
    run: async ({ concurrency }, say, signal) => {
      const request = { action: `WORKER_ACTION_${action.toUpperCase()}`, ...(name ? { name } : { all: true }), ...(concurrency === undefined ? {} : { concurrency: Number(concurrency) }) };
      const answer = await call("AdminService/ControlWorkers", request, { signal });
      return `${number(answer.notified)} ${answer.notified === 1 ? "worker has" : "workers have"} got the command.`;
    },
  });
}

export function view({ workers, more, tasks, moreTasks }, at) {
  const name = at.filter.get("name"), gone = at.filter.get("gone") === "1";
  return [
    h("h1", { tabindex: "-1" }, name ? `Worker ${name}` : "Workers"),
    workers.length ? buttons(ACTIONS, at, (action) => control(action, name, workers, at), name ? "" : " all") : null,
    table("Workers", WORKER_COLUMNS, workers, name ? "This worker is not alive." : "No worker is alive."),
    more ? h("p", { class: "empty" }, "There are more.") : null,
    tasks && h("section", null, h("h2", null, "Executing"),
      table("Tasks that it executes", TASK_COLUMNS, tasks, "None."),
      moreTasks ? h("p", { class: "empty" }, `Only the newest ${number(EXECUTING)} executing tasks are read.`) : null),
    h("p", null, h("a", { href: `#/workers${query({ name, gone: gone ? "" : "1" })}` }, gone ? "Only living ones" : "Also those that are gone")),
  ];
}
