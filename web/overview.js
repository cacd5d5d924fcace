// Overview: totals, what is wrong, charts, queues, workers, and what the last day brought.
import { charts, loadActivity, rangeOf, sample } from "./activity.js";
import { h, table } from "./dom.js";
import { duration, number, periodStart, query, taskLink, tasksLink, time, word } from "./format.js";
import { WORKER_COLUMNS } from "./workers.js";

const KINDS = ["OLDEST_QUEUED", "DEAD", "UNSERVED", "HALTED", "SCHEDULES", "CALLBACKS"];
const SELDOM_MS = 60000; // for what changes slowly, or costs more
const LATE_MS = "60000"; // a schedule that is due at this moment is not late
const WORKERS_SHOWN = 10;

export const title = () => "Overview";
export const every = (data) => (data.seldom ? 2000 : 50); // what takes longer comes after the first view

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
    const due = [group?.oldestDueUs, item.oldestDueUs].map(Number).filter(Boolean);
    if (due.length) groups.get(key).oldestDueUs = Math.min(...due);
  }
  return [...groups.values()];
}

async function loadSeldom(call, before) {
  const at = periodStart(SELDOM_MS);
  if (before?.at === at) return before;
  const [doctor, hours] = await Promise.all([
    call("AdminService/Doctor"),
    pages(call, "TaskService/Executions", { status: "EXECUTION_STATUS_ALL" }, "counts"),
  ]);
  return { at, findings: doctor.findings ?? [], hours: joined(hours, (c) => c.hourUs, ["count", "completed", "totalUs"]) };
}

function rate(stats, before) {
  const ended = ["completed", "dead", "cancelled"].reduce((sum, field) => sum + Number(stats[field] ?? 0), 0);
  const now = performance.now(), since = before ? now - before.at : 0;
  if (before && since < 1000) return before;
  // The history also shrinks, when old tasks are removed.
  return { ended, at: now, perSecond: since ? Math.max(0, ended - before.ended) / since * 1000 : null };
}

export async function load({ call, filter }, before) {
  const range = rangeOf(filter);
  const [stats, queues, workers, check, seldom, activity] = await Promise.all([
    call("AdminService/Stats"),
    pages(call, "AdminService/ListQueues", {}, "queues"),
    call("AdminService/ListWorkers", { limit: 1000 }),
    call("AdminService/Check", { questions: KINDS.map((kind) => ({ kind: `CHECK_KIND_${kind}`, ...(kind === "SCHEDULES" ? { longerMs: LATE_MS } : {}) })) }),
    before && loadSeldom(call, before.seldom),
    loadActivity(call, range, before?.activity),
  ]);
  sample(stats);
  return {
    stats, seldom, activity, range, rate: rate(stats, before?.rate), workers: workers.workers ?? [],
    moreWorkers: (workers.nextAfter ?? "0") !== "0",
    queues: joined(queues, (q) => q.queue, ["queued", "delayed", "executing", "failed"]),
    measures: Object.fromEntries(check.measures.map((measure) => [measure.kind.replace("CHECK_KIND_", ""), measure])),
  };
}

function tile(name, value, filter, kind) {
  return h("div", { class: `tile ${kind ?? ""}` }, h("dt", null, name), h("dd", null, filter ? tasksLink(filter, value) : value));
}

function totals({ stats, rate, workers, moreWorkers }) {
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
    tile("Workers", `${number(stats.workersAlive)} with ${number(slots)}${moreWorkers ? "+" : ""} slots`));
}

/** The types that no worker takes, with their queues, as `reeve doctor` names them. */
const unserved = ({ UNSERVED }) => (UNSERVED?.examples ?? []).map(({ queue, type }) => `${type} in queue ${queue}`);

/** What needs someone's attention, in sentences. */
function concerns({ measures }) {
  const { OLDEST_QUEUED: oldest, DEAD, UNSERVED, HALTED, SCHEDULES, CALLBACKS } = measures;
  const some = (measure) => Number(measure?.count ?? 0);
  const all = (measure, field) => [...new Set((measure.examples ?? []).map((example) => example[field]).filter(Boolean))].slice(0, 3);
  const names = (measure, field) => all(measure, field).join(", ");
  const many = ({ count }, one, more) => `${number(count)} ${Number(count) === 1 ? one : more}`;
  return [
    some(oldest) && ["The oldest due task waits for ", duration(oldest.longestMs), all(oldest, "taskId").slice(0, 1).map((id) => [": ", taskLink(id)])],
    some(DEAD) && [tasksLink({ status: "dead" }, many(DEAD, "task", "tasks")), " ended dead within the last hour: ", names(DEAD, "name")],
    some(UNSERVED) && [many(UNSERVED, "task has", "tasks have"), " a type that no worker takes: ", unserved(measures).join(", "),
      h("span", { class: "advice" }, ". Start a worker with a handler for it that serves its queue.")],
    some(HALTED) && [many(HALTED, "task waits", "tasks wait"), " in queues that are paused, stopped or not started: ", names(HALTED, "queue")],
    some(SCHEDULES) && [many(SCHEDULES, "schedule is late: ", "schedules are late: "),
      all(SCHEDULES, "name").map((name, i) => [i ? ", " : "", h("a", { href: `#/schedules${query({ name })}` }, name)])],
    some(CALLBACKS) && [many(CALLBACKS, "callback was", "callbacks were"), " given up within the last hour"],
  ].filter(Boolean);
}

const QUEUE_COLUMNS = [
  { head: "Queue", cell: (q) => h("a", { href: `#/queues${query({ name: q.queue })}` }, q.queue) },
  ...[["Due", "queued", "queued"], ["Later", "delayed", "queued"], ["Executing", "executing", "executing"], ["Wait for a retry", "failed", "failed"]]
    .map(([head, field, status]) => ({ head, number: true, cell: (q) => (Number(q[field] ?? 0) ? tasksLink({ queue: q.queue, status }, number(q[field])) : "0") })),
  { head: "Oldest due", cell: (q) => time(q.oldestDueUs) },
];
QUEUE_COLUMNS.key = (q) => q.queue;

const SOME_COLUMNS = WORKER_COLUMNS.filter(({ head }) => ["Worker", "State", "Host", "Slots busy", "Completed", "Failed", "Heartbeat"].includes(head));
SOME_COLUMNS.key = WORKER_COLUMNS.key;

const HOUR_COLUMNS = [
  { head: "Hour", cell: (c) => time(c.hourUs, true) },
  { head: "Attempts", number: true, cell: (c) => number(c.count) },
  { head: "Failed", number: true, cell: (c) => number(Number(c.count) - Number(c.completed ?? 0)) },
  { head: "Average time", number: true, cell: (c) => duration(Number(c.totalUs ?? 0) / 1000 / Number(c.count)) },
];

export function view(data) {
  const attention = concerns(data), said = unserved(data.measures), { hours = [] } = data.seldom ?? {}, looking = !data.seldom && "Looking…";
  const findings = (data.seldom?.findings ?? []).filter(({ area, subject }) => area !== "FINDING_AREA_WORKERS" || !said.includes(subject));
  return [
    h("h1", { tabindex: "-1" }, "Overview"),
    totals(data),
    h("section", null, h("h2", null, "Attention"),
      attention.length || findings.length
        ? h("ul", { class: "findings" },
            attention.map((parts) => h("li", { class: "warning" }, parts)),
            findings.map((f) => h("li", { class: word(f.severity, "FINDING_SEVERITY_") },
              h("strong", null, `${word(f.area, "FINDING_AREA_")}: `), `${f.subject}: ${f.problem}. `, h("span", { class: "advice" }, f.advice))))
        : h("p", { class: "empty" }, looking || "Nothing is wrong.")),
    ...charts(data.activity, data.range, (range) => `#/${query({ range })}`),
    h("section", null, h("h2", null, "Queues"), table("Tasks by queue", QUEUE_COLUMNS, data.queues, "There is no task yet.")),
    h("section", null, h("h2", null, "Workers"),
      table("The first workers", SOME_COLUMNS, data.workers.slice(0, WORKERS_SHOWN), "No worker is alive."),
      h("p", null, h("a", { href: "#/workers" }, `All workers (${number(data.stats.workersAlive)})`))),
    h("section", null, h("h2", null, "The last day"),
      table("Attempts by hour", HOUR_COLUMNS, [...hours].sort((a, b) => Number(b.hourUs) - Number(a.hourUs)), looking || "No attempt has ended.")),
  ];
}
