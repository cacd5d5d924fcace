// A task: everything about it, its audit as a timeline, and the tasks that belong to it.
import { changeButtons, changeTask, changesOf } from "./actions.js";
import { block, facts, h, table } from "./dom.js";
import { duration, number, query, status, taskLink, tasksLink, time, word } from "./format.js";

const ENDED = ["TASK_STATUS_COMPLETED", "TASK_STATUS_DEAD", "TASK_STATUS_CANCELLED"];
const EVENTS = 500, CHILDREN = 50, LINES = 200;

export const title = ({ task }) => `Task ${task.id}`;
export const every = ({ task }) => (ENDED.includes(task.status) ? 10000 : 2000);

export async function load({ call, parameters: { id } }, before) {
  const { task } = await call("TaskService/Get", { id });
  const same = before && before.task.token === task.token && before.task.status === task.status;
  const [audit, logs, children] = await Promise.all([
    call("TaskService/Audit", { taskId: id, limit: EVENTS }),
    same && ENDED.includes(task.status) ? before : call("TaskService/Logs", { taskId: id, newest: true, limit: LINES }),
    call("TaskService/List", { filter: { parentId: id, afterId: id }, limit: CHILDREN }),
  ]);
  return { task, events: audit.events ?? [], more: audit.more, lines: logs.lines ?? [], children: children.tasks ?? [], moreChildren: (children.nextBeforeId ?? "0") !== "0" };
}

/** Why a task waits, in a sentence. */
function waiting(task) {
  const { reason, taskId, workers = 0, slots = 0, busy = 0 } = task.waiting;
  switch (reason.replace("WAIT_REASON_", "")) {
  case "QUEUE_STOPPED": return `The queue ${task.queue} is stopped.`;
  case "QUEUE_PAUSED": return `The queue ${task.queue} is paused.`;
  case "QUEUE_NOT_STARTED": return `The queue ${task.queue} has not been started.`;
  case "INBOX": return "It was submitted by SQL, and no manager has ingested it yet.";
  case "BATCH_ENTRY": return ["The entry task of its batch has not ended: ", taskLink(taskId)];
  case "RETRY_DELAY": return ["Its last attempt failed. The next one is due ", time(task.runAtUs)];
  case "NOT_DUE": return ["It is due ", time(task.runAtUs)];
  case "DETAILS_TOO_LONG": return "Its details do not fit into the messages of this manager (--max-message).";
  case "NO_WORKER": return `No living worker takes the type ${task.type} in the queue ${task.queue}.`;
  case "WORKERS_PAUSED": return `Each of the ${workers} workers that take it is paused or draining.`;
  case "WORKERS_BUSY": return `All ${slots} slots of the ${workers} workers that take it are busy.`;
  case "TURN": return `It waits for its turn: ${busy} of ${slots} slots are busy.`;
  case "WAITING_PERIOD": return `The waiting period of the queue ${task.queue} is not over.`;
  case "QUEUE_LIMIT": return `As many tasks of the queue ${task.queue} execute as may: ${slots}.`;
  default: return word(reason, "WAIT_REASON_");
  }
}

const TIMELINE = [
  { head: "Time", cell: (e) => time(e.atUs) },
  { head: "Event", cell: (e) => h("strong", { class: "event" }, word(e.event, "AUDIT_EVENT_KIND_")) },
  { head: "Attempt", number: true, cell: (e) => e.attempt },
  { head: "Worker", cell: (e) => e.worker },
  { head: "By", cell: (e) => e.actor },
  { head: "Note", cell: (e) => e.note },
];

const LOG = [
  { head: "Time", cell: (l) => time(l.atUs) },
  { head: "Attempt", number: true, cell: (l) => l.attempt },
  { head: "Line", cell: (l) => l.text },
];
LOG.key = (l) => l.number;

const CHILD_COLUMNS = [
  { head: "Task", cell: (t) => taskLink(t.id) },
  { head: "Status", cell: (t) => status(t.status) },
  { head: "Queue", cell: (t) => t.queue },
  { head: "Type", cell: (t) => t.type },
  { head: "Submitted", cell: (t) => time(t.createdUs) },
];
CHILD_COLUMNS.key = (t) => t.id;

function omitted(label, bytes) {
  return Number(bytes ?? 0) ? h("section", null, h("h2", null, label), h("p", { class: "empty" }, `${number(bytes)} bytes do not fit into an answer.`)) : null;
}

function text(label, value, bytes) {
  return value ? block(label, value) : omitted(label, bytes);
}

export function view({ task, events, more, lines, children, moreChildren }, at) {
  const state = word(task.status, "TASK_STATUS_");
  return [
    h("h1", { tabindex: "-1" }, `Task ${task.id} `, status(task.status)),
    changeButtons(changesOf([task.status]), at, (name) => changeTask(name, task.id, state, at.refresh)),
    task.waiting ? h("p", { class: "waiting" }, "It waits. ", waiting(task)) : null,
    task.cancelRequested && !ENDED.includes(task.status) ? h("p", { class: "warning" }, "Its cancel was requested.") : null,
    task.lastError ? h("section", null, h("h2", null, "Error"), h("p", { class: "error" }, task.lastError)) : null,
    facts([
      ["Queue", h("a", { href: `#/queues${query({ name: task.queue })}` }, task.queue)],
      ["Type", tasksLink({ queue: task.queue, type: task.type }, task.type)],
      ["Pipeline", task.pipeline && [h("a", { href: `#/pipelines${query({ name: task.pipeline })}` }, task.pipeline), `, stage ${task.stage}, step ${task.step ?? 0}`]],
      ["Batch", task.batchId && task.batchId !== "0" && h("a", { href: `#/batches${query({ id: task.batchId })}` }, task.batchId)],
      ["Parent", taskLink(task.parentId)],
      ["Priority", number(task.priority)],
      ["Attempts", `${task.attempt ?? 0} of ${task.maxAttempts ?? 0}, ${task.errorCount ?? 0} failed`],
      ["Error code", task.errorCode && tasksLink({ code: task.errorCode }, task.errorCode)],
      ["Retryable", task.recoverable === undefined ? "" : task.recoverable ? "yes" : "no"],
      ["Worker", task.worker && h("a", { href: `#/workers${query({ name: task.worker })}` }, task.worker)],
      ["Progress", task.progress === undefined ? "" : [h("progress", { max: 100, value: task.progress, "aria-label": "Progress" }), ` ${task.progress} %`]],
      ["Remark", task.remark],
      ["Key", task.key],
      ["Version", task.version],
      ["Submitter", task.source],
      ["Trace", task.traceparent],
      ["Submitted", time(task.createdUs)],
      ["Due", time(task.runAtUs)],
      ["First started", time(task.firstStartedUs)],
      ["Started", time(task.startedUs)],
      ["Last failed", time(task.lastFailedUs)],
      ["Expires", time(task.expiryUs)],
      ["Ended", time(task.endedUs)],
      ["Last attempt took", task.processingMs && duration(task.processingMs)],
      ["Timeout of an attempt", task.timeoutMs && duration(task.timeoutMs)],
    ]),
    text("Details", task.details, task.omitted?.detailsBytes),
    text("Result", task.result, task.omitted?.resultBytes),
    text("Stack trace", task.stackTrace),
    h("section", null, h("h2", null, "Timeline"), table("What happened, in order", TIMELINE, events),
      more ? h("p", { class: "empty" }, "There are more events: ", h("code", null, `reeve audit ${task.id}`)) : null),
    lines.length ? h("section", null, h("h2", null, "Log"), table(`The last ${number(LINES)} lines`, LOG, lines),
      lines[0].number > 1 ? h("p", { class: "empty" }, "All that are kept: ", h("code", null, `reeve logs ${task.id}`)) : null) : null,
    children.length || moreChildren ? h("section", null, h("h2", null, "Tasks that it submitted"),
      table("Its children", CHILD_COLUMNS, children, "None is among the newest tasks."),
      moreChildren ? tasksLink({ parent: task.id }, "All") : null) : null,
  ];
}
