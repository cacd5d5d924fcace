// Schedules: a list, and a page with the next times and the runs of each.
import { ask, buttons } from "./actions.js";
import { block, facts, h, paging, table } from "./dom.js";
import { duration, query, spanMs, spanText, status, taskLink, tasksLink, time, word } from "./format.js";
import { CallError, repeatable } from "./rpc.js";

const PREVIEW = 10, RUNS = 50, LIST = 200;
const ACTIONS = [
  ["run", "Run now", "It runs once, in addition to its scheduled times."],
  ["edit", "Edit"],
  ["pause", "Pause", "It does not run until it is resumed."],
  ["resume", "Resume", "It runs again, from its next scheduled time on."],
  ["remove", "Remove", "Its definition is deleted. Its tasks go on, and its runs stay listed.", true],
];

export const title = (data, { filter }) => (filter.get("name") ? `Schedule ${filter.get("name")}` : "Schedules");
export const every = () => 5000;

export async function load({ call, filter }) {
  const name = filter.get("name");
  if (!name) {
    const answer = await call("ScheduleService/List", { limit: LIST, afterName: filter.get("after") ?? "" });
    return { schedules: answer.schedules ?? [], more: answer.more };
  }
  const [{ schedule }, runs] = await Promise.all([
    call("ScheduleService/Show", { name, preview: PREVIEW }).catch((error) => {
      if (error.code === "not_found") return {}; // it was removed, and its runs are still there
      throw error;
    }),
    call("ScheduleService/Runs", { name, limit: RUNS, beforeId: filter.get("before") ?? "0" }),
  ]);
  return { name, schedule, runs: runs.runs ?? [], next: (runs.nextBeforeId ?? "0") === "0" ? "" : runs.nextBeforeId };
}

function when(s) {
  if (s.manual) return "manual runs only";
  return s.cron ? `${s.cron} (${s.zone || "UTC"})` : `every ${duration(s.everyMs)}`;
}

function what(s) {
  if (s.actionQueue) return `${word(s.queueAction, "QUEUE_ACTION_")} the queue ${s.actionQueue}`;
  return `${s.task?.pipeline ? `pipeline ${s.task.pipeline}` : s.task?.type ?? ""} in ${s.task?.queue || "default"}`;
}

const COLUMNS = [
  { head: "Schedule", cell: (s) => h("a", { href: `#/schedules${query({ name: s.name })}` }, s.name) },
  { head: "When", cell: when },
  { head: "What", cell: what },
  { head: "Next", cell: (s) => (s.paused ? h("span", { class: "status failed" }, "paused") : time(s.nextUs)) },
  { head: "Last", cell: (s) => time(s.lastUs) },
  { head: "Outcome", cell: (s) => word(s.lastOutcome, "RUN_OUTCOME_") },
  { head: "Task", cell: (s) => taskLink(s.lastTaskId) },
];
COLUMNS.key = (s) => s.name;

const RUN_COLUMNS = [
  { head: "Scheduled", cell: (r) => time(r.scheduledUs) ?? `by ${r.actor}` },
  { head: "Ran", cell: (r) => time(r.atUs) },
  { head: "Outcome", cell: (r) => word(r.outcome, "RUN_OUTCOME_") },
  { head: "Task", cell: (r) => taskLink(r.taskId) },
  { head: "Status", cell: (r) => status(r.taskStatus) },
  { head: "Note", cell: (r) => r.note },
];
RUN_COLUMNS.key = (r) => r.id;

const CATCH_UP = [["CATCH_UP_POLICY_ONE", "the latest runs"], ["CATCH_UP_POLICY_ALL", "all run"], ["CATCH_UP_POLICY_SKIP", "none runs"]];
const OVERLAP = [["CONCURRENCY_POLICY_QUEUE", "the next one waits"], ["CONCURRENCY_POLICY_ALLOW", "both run"], ["CONCURRENCY_POLICY_FORBID", "the next one is skipped"]];

/** What can be edited: the field's name, its label, its value as text, and more about its input. */
const EDITABLE = [
  ["cron", "Cron expression", (s) => s.cron],
  ["zone", "Its time zone", (s) => s.zone],
  ["every_ms", "Or an interval, such as 30s, 10m or 2h; neither: manual runs only", (s) => s.everyMs && spanText(s.everyMs)],
  ["task.queue", "Queue", (s) => s.task.queue],
  ["task.details", "Details", (s) => s.task.details, { rows: 4 }],
  ["task.priority", "Priority, higher ones first", (s) => s.task.priority ?? 0, { type: "number", min: -1000000, max: 1000000, required: true }],
  ["catch_up", "Of runs that were missed", (s) => s.catchUp, { choices: CATCH_UP }],
  ["max_catch_up", "If all: at most", (s) => s.maxCatchUp, { type: "number", min: 1, max: 1000 }],
  ["concurrency_policy", "Concurrency policy: if the run before has not ended", (s) => s.concurrencyPolicy, { choices: OVERLAP }],
];

/** The request that makes the schedule what the form says: only the fields that differ. */
function edit(s, values) {
  const schedule = { name: s.name }, fields = [];
  const lines = (text) => String(text ?? "").replace(/\r\n?/g, "\n"); // as in a form
  const differs = ([name, , get]) => name in values && lines(values[name]) !== lines(get(s));
  for (const [name, , , more] of EDITABLE.filter(differs)) {
    const value = name === "every_ms" ? spanMs(values[name]) : more?.type ? Number(values[name]) : values[name];
    if (name === "every_ms" && values[name] && !value) throw new CallError("invalid_argument", `“${values[name]}” is not an interval such as 30s, 10m or 2h.`);
    fields.push(name);
    if (name.startsWith("task.")) schedule.task = { ...schedule.task, [name.slice(5)]: value, own_priority: true }; // also a priority of 0 counts
    else if (value) schedule[name] = value;
  }
  if (!fields.length) throw new CallError("invalid_argument", "Nothing was changed.");
  if (values.cron && values.every_ms) throw new CallError("invalid_argument", "Give a cron expression or an interval, not both.");
  // The way that is left ends the others, and both fields about missed runs belong together.
  const ways = ["cron", "every_ms"], touched = fields.some((name) => ways.includes(name));
  const way = touched && (ways.find((name) => values[name]) ?? "manual");
  if (fields.includes("max_catch_up") && !fields.includes("catch_up")) fields.push("catch_up");
  if (fields.includes("catch_up"))
    Object.assign(schedule, { catch_up: values.catch_up }, values.catch_up === "CATCH_UP_POLICY_ALL" ? { max_catch_up: Number(values.max_catch_up) } : { max_catch_up: 0 });
  if (way === "manual") schedule.manual = true;
  return { schedule, fields: [...fields.filter((name) => !ways.includes(name)), ...(way ? [way] : [])] };
}

function change(s, { refresh }) {
  const send = repeatable();
  ask({
    title: `Edit: schedule ${s.name}`, button: "Save", done: refresh,
    affected: () => "1 schedule. Tasks that it has submitted stay as they are.",
    fields: EDITABLE.filter(([name]) => s.task || !name.startsWith("task."))
      .map(([name, label, get, more]) => ({ name, label, value: String(get(s) ?? ""), ...more })),
    run: async (values, say, signal) => {
      const { schedule } = await send("ScheduleService/Edit", edit(s, values), signal);
      return ["Saved. The next run: ", schedule.manual ? "a manual one" : time(schedule.nextUs), "."];
    },
  });
}

function act([action, button, effect, danger], schedule, { refresh }) {
  const send = repeatable(), { name } = schedule;
  if (action === "edit") return change(schedule, { refresh });
  ask({
    title: `${button}: schedule ${name}`, button, danger, done: refresh,
    affected: () => `1 schedule. ${effect}`,
    run: async (values, say, signal) => {
      if (action !== "run") {
        await send("ScheduleService/Control", { name, action: `SCHEDULE_ACTION_${action.toUpperCase()}` }, signal);
        return "Done.";
      }
      const { run } = await send("ScheduleService/Run", { name }, signal);
      return `It ran: ${word(run.outcome, "RUN_OUTCOME_")}${run.taskId ? `, task ${run.taskId}` : ""}.${run.note ? ` ${run.note}` : ""}`;
    },
  });
}

export function view(data, at) {
  if (data.schedules)
    return [
      h("h1", { tabindex: "-1" }, "Schedules"),
      table("Schedules", COLUMNS, data.schedules, "There is no schedule."),
      paging(["Next", data.more && `#/schedules${query({ after: data.schedules.at(-1).name })}`]),
    ];
  const { name, schedule: s, runs, next } = data;
  return [
    h("h1", { tabindex: "-1" }, `Schedule ${name} `, s?.paused ? h("span", { class: "status failed" }, "paused") : null),
    s ? buttons(ACTIONS.filter(([action]) => action !== (s.paused ? "pause" : "resume")), at, (action) => act(action, s, at)) : null,
    s ? facts([
      ["When", when(s)],
      ["What", what(s)],
      ["Start", time(s.startUs)],
      ["Catch-up", word(s.catchUp, "CATCH_UP_POLICY_")],
      ["Concurrency policy", word(s.concurrencyPolicy, "CONCURRENCY_POLICY_")],
      ["Waits for", taskLink(s.waitsFor)],
      ["Key", s.task?.key],
      ["Added", time(s.createdUs)],
      ["By", s.source],
      ["Changed", time(s.updatedUs)],
      ["Its tasks", s.task ? tasksLink({ queue: s.task.queue || "default", type: s.task.type }, "of its queue and type") : ""],
    ]) : h("p", { class: "warning" }, "It was removed."),
    s?.task?.details ? block("Details", s.task.details) : null,
    s?.scheduledUs?.length ? h("section", null, h("h2", null, "Next runs"), h("ol", null, s.scheduledUs.map((us) => h("li", null, time(us))))) : null,
    h("section", null, h("h2", null, "Runs"), table("Runs, newest first", RUN_COLUMNS, runs, "It has not run yet."),
      paging(["Older", next && `#/schedules${query({ name, before: next })}`])),
  ];
}
