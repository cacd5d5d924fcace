// Queues: a list, and a page with state, charts, settings and workers of each.
import { ask, buttons, tasks } from "./actions.js";
import { charts, loadActivity, rangeOf, sample } from "./activity.js";
import { facts, h, table } from "./dom.js";
import { duration, number, query, tasksLink, time, word } from "./format.js";
import { repeatable } from "./rpc.js";
import { WORKER_COLUMNS } from "./workers.js";

const ACTIONS = [
  ["start", "Start", "waiting tasks can begin"],
  ["pause", "Pause", "running tasks finish, and no other begins until it is resumed"],
  ["resume", "Resume", "its tasks begin again"],
  ["stop", "Stop", "running tasks are cancelled, waiting ones end dead, and open batches end", true],
  ["purge", "Purge", "all waiting tasks are cancelled", true],
];

export const title = (data, { filter }) => (filter.get("name") ? `Queue ${filter.get("name")}` : "Queues");
export const every = () => 3000;

async function loadList(call, queue) {
  const groups = new Map();
  let page = "";
  do {
    const answer = await call("AdminService/ListQueues", { queue, page });
    for (const q of answer.queues ?? []) {
      const group = groups.get(q.queue) ?? { queue: q.queue, types: new Set(), queued: 0, delayed: 0, executing: 0, failed: 0, oldest: 0 };
      group.types.add(q.type);
      for (const field of ["queued", "delayed", "executing", "failed"]) group[field] += Number(q[field] ?? 0);
      const oldest = Number(q.oldestDueUs ?? 0);
      if (oldest && (!group.oldest || oldest < group.oldest)) group.oldest = oldest;
      groups.set(q.queue, group);
    }
    page = answer.nextPage ?? "";
  } while (page);
  return { queues: [...groups.values()] };
}

export async function load({ call, filter }, before) {
  const queue = filter.get("name"), range = rangeOf(filter);
  if (!queue) return loadList(call);
  const [status, described, counts, activity] = await Promise.all([
    call("QueueService/Status", { queue }), call("QueueService/Describe", { queue }), loadList(call, queue),
    loadActivity(call, range, before?.activity, queue),
  ]);
  sample(counts.queues[0] ?? {}, queue);
  return { queue, range, status, described, activity };
}

const link = (name) => h("a", { href: `#/queues${query({ name })}` }, name);

const COLUMNS = [
  { head: "Queue", cell: (q) => link(q.queue) },
  { head: "Types", cell: (q) => [...q.types].slice(0, 5).join(", ") + (q.types.size > 5 ? `, and ${q.types.size - 5} others` : "") },
  ...[["Due", "queued", "queued"], ["Later", "delayed", "queued"], ["Executing", "executing", "executing"], ["Wait for a retry", "failed", "failed"]]
    .map(([head, field, status]) => ({ head, number: true, cell: (q) => (q[field] ? tasksLink({ queue: q.queue, status }, number(q[field])) : "0") })),
  { head: "Oldest due", cell: (q) => time(q.oldest) },
];
COLUMNS.key = (q) => q.queue;

function control([action, name, effect, danger], { queue, status }, { refresh }) {
  const send = repeatable();
  ask({
    title: `${name}: queue ${queue}`, button: name, danger, done: refresh,
    affected: () => `The queue has ${number(status.waiting)} waiting and ${number(status.running)} executing tasks: ${effect}.`,
    run: async (values, say, signal) => {
      const answer = await send("QueueService/Control", { queue, action: `QUEUE_ACTION_${action.toUpperCase()}` }, signal);
      const ended = Number(answer.tasks ?? 0);
      return `The queue is ${word(answer.state, "QUEUE_STATE_")}.${ended ? ` ${tasks(ended)} ${ended === 1 ? "has" : "have"} ended.` : ""}`;
    },
  });
}

/** The settings that differ from what a queue has without any, in the words of `reeve queue set`. */
function settings({ settings: s, isSet }) {
  const span = (ms) => Number(ms ?? 0) && duration(ms);
  return facts([
    ["Settings", isSet ? "" : "the defaults"],
    ["Retry limit", (s.retryLimit ?? 0) >= 0 ? number(s.retryLimit) : ""],
    ["Maximum tasks at once", (s.maxRunning ?? 0) >= 0 ? number(s.maxRunning) : ""],
    ["Priority", s.priority && number(s.priority)],
    ["Timeout", span(s.timeoutMs)],
    ["Resting period", span(s.restingMs)],
    ["Waiting period", span(s.waitingMs)],
    ["Autostart", s.autostart ? "" : "no"],
    ["Batches", s.batches && "yes"],
    ["Callback", s.callbackUrl],
    ["Callback task", s.callbackType],
    ["Entry task", s.entryType],
    ["Exit task", s.exitType],
    ["Keeps completed tasks", span(s.keepCompletedMs)],
    ["Keeps dead tasks", span(s.keepDeadMs)],
    ["Keeps cancelled tasks", span(s.keepCancelledMs)],
    ["Keeps keys", span(s.keyTtlMs)],
  ]);
}

export function view(data, at) {
  if (data.queues) return [h("h1", { tabindex: "-1" }, "Queues"), table("Queues", COLUMNS, data.queues, "There is no queue yet.")];
  const { queue, status: s, described } = data;
  return [
    h("h1", { tabindex: "-1" }, `Queue ${queue} `, h("span", { class: `status ${word(s.state, "QUEUE_STATE_").replaceAll(" ", "-")}` }, word(s.state, "QUEUE_STATE_"))),
    buttons(ACTIONS, at, (action) => control(action, data, at)),
    facts([
      ["Since", time(s.sinceUs)],
      ["Waiting", tasksLink({ queue, status: "queued,failed" }, number(s.waiting))],
      ["Executing", tasksLink({ queue, status: "executing" }, number(s.running))],
      ["Completed", tasksLink({ queue, status: "completed" }, number(s.completed))],
      ["Dead or cancelled", tasksLink({ queue, status: "dead,cancelled" }, number(s.failed))],
      ["Open batches", Number(s.openBatches ?? 0) ? h("a", { href: `#/batches${query({ queue, open: "1" })}` }, number(s.openBatches)) : ""],
      ["Errors", h("a", { href: `#/errors${query({ queue })}` }, "of the last day")],
    ]),
    ...charts(data.activity, data.range, (range) => `#/queues${query({ name: queue, range })}`),
    h("section", null, h("h2", null, "Settings"), settings(described)),
    h("section", null, h("h2", null, "Workers"), table("Workers that serve it", WORKER_COLUMNS, s.workers ?? [], "No living worker serves it."),
      s.moreWorkers ? h("p", { class: "empty" }, "There may be more.") : null),
  ];
}
