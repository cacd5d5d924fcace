// Batches: a list, and a page with the tasks and callbacks of each.
import { facts, h, paging, table } from "./dom.js";
import { duration, number, query, status, taskLink, tasksLink, time, word } from "./format.js";
import { searchTime } from "./rpc.js";

const LIST = 50, TASKS = 100;

export const title = (data, { filter }) => (filter.get("id") ? `Batch ${filter.get("id")}` : "Batches");
export const every = (data, { filter }) => (filter.get("before") || data.batch?.state === "BATCH_STATE_ENDED" ? 60000 : 3000);

export async function load({ call, filter }) {
  const id = filter.get("id");
  if (id) {
    const tasks = filter.get("tasks");
    const [report, callbacks] = await Promise.all([
      call("BatchService/Report", { id, limit: TASKS, afterId: filter.get("after") ?? "0", ...(tasks ? { tasks: `BATCH_TASKS_${tasks.toUpperCase()}` } : {}) }),
      call("BatchService/Callbacks", { batchId: id, limit: TASKS }),
    ]);
    return { batch: report.batch, tasks: report.tasks ?? [], next: report.more ? report.nextAfterId : "", callbacks: callbacks.callbacks ?? [] };
  }
  const batches = [], more = searchTime();
  let before = filter.get("before") ?? "0", warning = "";
  while (batches.length < LIST) {
    const answer = await call("BatchService/List", { queue: filter.get("queue") ?? "", openOnly: filter.get("open") === "1", limit: LIST - batches.length, beforeId: before });
    batches.push(...(answer.batches ?? []));
    warning ||= answer.warning ?? "";
    before = answer.nextBeforeId ?? "0";
    if (before === "0" || !more()) break;
  }
  return { batches, warning, next: before === "0" ? "" : before };
}

const state = (b) => h("span", { class: `status ${b.state === "BATCH_STATE_ENDED" ? (Number(b.failed ?? 0) ? "dead" : "completed") : ""}` }, word(b.state, "BATCH_STATE_"));

const COLUMNS = [
  { head: "Batch", cell: (b) => batchLink(b.id) },
  { head: "Name", cell: (b) => b.name },
  { head: "Queue", cell: (b) => b.queue },
  { head: "State", cell: state },
  { head: "Tasks", number: true, cell: (b) => number(b.submitted) },
  { head: "Pending", number: true, cell: (b) => number(b.pending) },
  { head: "Completed", number: true, cell: (b) => number(b.completed) },
  { head: "Failed", number: true, cell: (b) => number(b.failed) },
  { head: "Opened", cell: (b) => time(b.createdUs) },
  { head: "Took", number: true, cell: (b) => Number(b.durationMs ?? 0) && duration(b.durationMs) },
];
COLUMNS.key = (b) => b.id;

const TASK_COLUMNS = [
  { head: "Task", cell: (t) => taskLink(t.id) },
  { head: "Status", cell: (t) => status(t.status) },
  { head: "Type", cell: (t) => t.type },
  { head: "Attempt", number: true, cell: (t) => `${t.attempt ?? 0}/${t.maxAttempts ?? 0}` },
  { head: "Took", number: true, cell: (t) => t.processingMs && duration(t.processingMs) },
  { head: "Ended", cell: (t) => time(t.endedUs) },
  { head: "Note", cell: (t) => t.lastError || t.remark },
];
TASK_COLUMNS.key = (t) => t.id;

export const callbackState = (c) =>
  h("span", { class: `status ${{ CALLBACK_STATE_DELIVERED: "completed", CALLBACK_STATE_GIVEN_UP: "dead" }[c.state] ?? ""}` }, word(c.state, "CALLBACK_STATE_"));

export const batchLink = (id) => h("a", { href: `#/batches${query({ id })}` }, id);

export const CALLBACK_COLUMNS = [
  { head: "Callback", cell: (c) => h("a", { href: `#/callbacks${query({ id: c.id })}` }, c.id) },
  { head: "Batch", cell: (c) => batchLink(c.batchId) },
  { head: "Task", cell: (c) => taskLink(c.taskId) },
  { head: "Event", cell: (c) => word(c.event, "CALLBACK_EVENT_") },
  { head: "State", cell: (c) => callbackState(c) },
  { head: "Receiver", cell: (c) => c.url },
  { head: "Attempts", number: true, cell: (c) => number(c.attempts) },
  { head: "Answer", number: true, cell: (c) => c.lastStatus },
  { head: "Error", cell: (c) => c.lastError && h("span", { class: "error" }, c.lastError) },
  { head: "Created", cell: (c) => time(c.createdUs) },
  { head: "Next or ended", cell: (c) => time(c.endedUs ?? c.nextUs) },
];
CALLBACK_COLUMNS.key = (c) => c.id;

const OWN_CALLBACK_COLUMNS = CALLBACK_COLUMNS.filter(({ head }) => head !== "Batch");
OWN_CALLBACK_COLUMNS.key = CALLBACK_COLUMNS.key;

export function view(data, { filter }) {
  if (data.batches) {
    const queue = filter.get("queue"), open = filter.get("open");
    return [
      h("h1", { tabindex: "-1" }, queue ? `Batches of the queue ${queue}` : "Batches"),
      data.warning ? h("p", { class: "warning" }, data.warning) : null,
      h("p", null, h("a", { href: `#/batches${query({ queue, open: open ? "" : "1" })}` }, open ? "Also those that have ended" : "Only open ones")),
      table("Batches, newest first", COLUMNS, data.batches, "There is no batch."),
      paging(["Older", data.next && `#/batches${query({ queue, open, before: data.next })}`]),
    ];
  }
  const { batch: b, tasks, next, callbacks } = data, id = b.id;
  return [
    h("h1", { tabindex: "-1" }, `Batch ${id} `, state(b)),
    facts([
      ["Name", b.name],
      ["Queue", tasksLink({ queue: b.queue, batch: id }, b.queue)],
      ["Phase", word(b.phase, "BATCH_PHASE_")],
      ["Tasks", number(b.submitted)],
      ["Pending", number(b.pending)],
      ["Completed", number(b.completed)],
      ["Failed", number(b.failed)],
      ["Entry task", b.entryId && [taskLink(b.entryId), " ", status(b.entryStatus)]],
      ["Exit task", b.exitId && [taskLink(b.exitId), " ", status(b.exitStatus)]],
      ["Opened", time(b.createdUs)],
      ["Started", time(b.startedUs)],
      ["Closed", time(b.closedUs)],
      ["Ended", time(b.endedUs)],
      ["Took", Number(b.durationMs ?? 0) && duration(b.durationMs)],
      ["Remaining, estimated", Number(b.remainingMs ?? 0) > 0 && duration(b.remainingMs)],
      ["By", b.source],
    ]),
    h("p", null, "Tasks: ", [["", "all"], ["pending", "pending"], ["completed", "completed"], ["failed", "failed"]]
      .map(([tasks, name]) => [h("a", { href: `#/batches${query({ id, tasks })}`, "aria-current": (filter.get("tasks") ?? "") === tasks && "true" }, name), " "])),
    table("Its tasks", TASK_COLUMNS, tasks, next ? "None was found so far." : "It has no such task."),
    paging(["Next", next && `#/batches${query({ id, tasks: filter.get("tasks"), after: next })}`]),
    callbacks.length ? h("section", null, h("h2", null, "Callbacks"), table("Callbacks", OWN_CALLBACK_COLUMNS, callbacks)) : null,
  ];
}
