// Overview: totals, queues, what is wrong, and what the last day brought.
import { h, table } from "./dom.js";
import { duration, number, tasksLink, time, word } from "./format.js";

const KINDS = ["OLDEST_QUEUED", "DEAD", "UNSERVED", "HALTED", "SCHEDULES", "CALLBACKS"];
const SELDOM_MS = 60000; // for what changes slowly, or costs more

export const title = () => "Overview";
export const every = () => 2000;

async function pages(call, method, request, items) {
  const all = [];
  let page = "";
  do {
    const answer = await call(method, { ...request, page });
    all.push(...(answer[items] ?? []));
    page = answer.nextPage ?? "";
  } while (page);
  return all;
}

/** The counts of an hour, or of a queue and type, can be on several pages. */
function joined(items, keyOf, fields) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item), group = groups.get(key);
    if (!group) groups.set(key, { ...item });
    else for (const field of fields) group[field] = Number(group[field] ?? 0) + Number(item[field] ?? 0);
  }
  return [...groups.values()];
}

async function loadSeldom(call, before) {
  if (before && Date.now() - before.at < SELDOM_MS) return before;
  const [doctor, hours] = await Promise.all([
    call("AdminService/Doctor"),
    pages(call, "TaskService/Executions", { status: "EXECUTION_STATUS_ALL" }, "counts"),
  ]);
  return { at: Date.now(), findings: doctor.findings ?? [], hours: joined(hours, (c) => c.hourUs, ["count", "succeeded", "totalUs"]) };
}

function rate(stats, before) {
  const ended = ["completed", "dead", "cancelled"].reduce((sum, field) => sum + Number(stats[field] ?? 0), 0);
  const now = performance.now(), since = before ? now - before.at : 0;
  // The history also shrinks, when old tasks are removed.
  return { ended, at: now, perSecond: since ? Math.max(0, ended - before.ended) / since * 1000 : null };
}

export async function load({ call }, before) {
  const [stats, queues, workers, check, seldom] = await Promise.all([
    call("AdminService/Stats"),
    pages(call, "AdminService/ListQueues", {}, "queues"),
    call("AdminService/ListWorkers", { limit: 1000 }),
    call("AdminService/Check", { questions: KINDS.map((kind) => ({ kind: `CHECK_KIND_${kind}` })) }),
    loadSeldom(call, before?.seldom),
  ]);
  return {
    stats, seldom, rate: rate(stats, before?.rate), workers: workers.workers ?? [],
    queues: joined(queues, (q) => q.queue, ["queued", "delayed", "executing", "failed"]),
    measures: Object.fromEntries(check.measures.map((measure) => [measure.kind.replace("CHECK_KIND_", ""), measure])),
  };
}

function tile(name, value, filter, kind) {
  return h("div", { class: `tile ${kind ?? ""}` }, h("dt", null, name), h("dd", null, filter ? tasksLink(filter, value) : value));
}

function totals({ stats, rate, workers }) {
  const slots = workers.reduce((sum, w) => sum + (w.manual ? 0 : w.concurrency ?? 0), 0);
  return h("dl", { class: "tiles" },
    tile("Due", number(stats.queued), { status: "queued" }),
    tile("Later", number(stats.delayed), { status: "queued" }),
    tile("Executing", number(stats.executing), { status: "executing" }),
    tile("Wait for a retry", number(stats.failed), { status: "failed" }, Number(stats.failed) ? "warn" : ""),
    tile("Completed", number(stats.completed), { status: "completed" }),
    tile("Dead", number(stats.dead), { status: "dead" }, Number(stats.dead) ? "bad" : ""),
    tile("Cancelled", number(stats.cancelled), { status: "cancelled" }),
    tile("Ended a second", rate.perSecond === null ? "…" : number(rate.perSecond < 10 ? rate.perSecond.toFixed(1) : Math.round(rate.perSecond))),
    tile("Workers", `${number(stats.workersAlive)} with ${number(slots)} slots`));
}

/** What needs someone's attention, in sentences. */
function concerns({ measures }) {
  const { OLDEST_QUEUED: oldest, DEAD, UNSERVED, HALTED, SCHEDULES, CALLBACKS } = measures;
  const some = (measure) => Number(measure?.count ?? 0);
  const names = (measure, field) => [...new Set((measure.examples ?? []).map((example) => example[field]).filter(Boolean))].slice(0, 3).join(", ");
  return [
    some(oldest) && ["The oldest due task waits for ", duration(oldest.longestMs)],
    some(DEAD) && [tasksLink({ status: "dead", newer: "1h" }, `${number(DEAD.count)} tasks`), " ended dead within the last hour: ", names(DEAD, "name")],
    some(UNSERVED) && [`${number(UNSERVED.count)} tasks have a type that no worker takes: `, names(UNSERVED, "type")],
    some(HALTED) && [`${number(HALTED.count)} tasks wait in queues that are paused, stopped or not started: `, names(HALTED, "queue")],
    some(SCHEDULES) && [`${number(SCHEDULES.count)} schedules are late: `, names(SCHEDULES, "name")],
    some(CALLBACKS) && [`${number(CALLBACKS.count)} callbacks were given up within the last hour`],
  ].filter(Boolean);
}

const QUEUE_COLUMNS = [
  { head: "Queue", cell: (q) => tasksLink({ queue: q.queue }, q.queue) },
  ...[["Due", "queued", "queued"], ["Later", "delayed", "queued"], ["Executing", "executing", "executing"], ["Wait for a retry", "failed", "failed"]]
    .map(([head, field, status]) => ({ head, number: true, cell: (q) => (Number(q[field] ?? 0) ? tasksLink({ queue: q.queue, status }, number(q[field])) : "0") })),
  { head: "Oldest due", cell: (q) => time(q.oldestDueUs) },
];
QUEUE_COLUMNS.key = (q) => q.queue;

const HOUR_COLUMNS = [
  { head: "Hour", cell: (c) => time(c.hourUs) },
  { head: "Attempts", number: true, cell: (c) => number(c.count) },
  { head: "Failed", number: true, cell: (c) => number(Number(c.count) - Number(c.succeeded ?? 0)) },
  { head: "Average time", number: true, cell: (c) => duration(Number(c.totalUs ?? 0) / 1000 / Number(c.count)) },
];

export function view(data) {
  const attention = concerns(data), { findings, hours } = data.seldom;
  return [
    h("h1", { tabindex: "-1" }, "Overview"),
    totals(data),
    h("section", null, h("h2", null, "Attention"),
      attention.length || findings.length
        ? h("ul", { class: "findings" },
            attention.map((parts) => h("li", { class: "warning" }, parts)),
            findings.map((f) => h("li", { class: word(f.severity, "FINDING_SEVERITY_") },
              h("strong", null, `${word(f.area, "FINDING_AREA_")}: `), `${f.subject}: ${f.problem}. `, h("span", { class: "advice" }, f.advice))))
        : h("p", { class: "empty" }, "Nothing is wrong.")),
    h("section", null, h("h2", null, "Queues"), table("Tasks by queue", QUEUE_COLUMNS, data.queues, "There is no task yet.")),
    h("section", null, h("h2", null, "The last day"),
      table("Attempts by hour", HOUR_COLUMNS, [...hours].sort((a, b) => Number(b.hourUs) - Number(a.hourUs)), "No attempt has ended.")),
  ];
}
