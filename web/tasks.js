// Tasks: a list with filters, all of them in the address.
import { changeButtons, changeMatching, changesOf } from "./actions.js";
import { h, paging, table } from "./dom.js";
import { duration, query, spanMs, status, taskLink, taskStatus, time, word } from "./format.js";
import { searchTime } from "./rpc.js";

const PAGE = 50;
const STATUSES = ["queued", "executing", "failed", "completed", "dead", "cancelled"];

/** The filters: the name in the address, the label, and how it becomes the request's filter. */
const FILTERS = [
  ["queue", "Queue", (f, v) => { f.queue = v; }],
  ["type", "Type", (f, v) => { f.type = v; }],
  ["key", "Key", (f, v) => { f.key = v; }],
  ["code", "Error code", (f, v) => { f.errorCode = v; }],
  ["contains", "Error contains", (f, v) => { f.errorContains = v; }],
  ["error", "Complete error", (f, v) => { f.error = v; }],
  ["batch", "Batch", (f, v) => { f.batchId = whole("Batch", v); }],
  ["parent", "Parent", (f, v) => { f.parentId = f.afterId = whole("Parent", v); }],
  ["pipeline", "Pipeline", (f, v) => { f.pipeline = v; }],
  ["stage", "Stage", (f, v) => { f.stage = v; }],
  ["source", "Submitter", (f, v) => { f.source = v; }],
  ["newer", "Submitted within", (f, v) => { f.newerMs = span("Submitted within", v); }, "1h"],
  ["older", "Submitted before", (f, v) => { f.olderMs = span("Submitted before", v); }, "7d"],
  ["running", "Executing for over", (f, v) => { f.runningLongerMs = span("Executing for over", v); }, "10m"],
];
const COMMON = 5; // how many are visible at first

class FilterError extends Error {}

function whole(label, text) {
  if (!/^\d{1,18}$/.test(text)) throw new FilterError(`${label}: “${text}” is not a number`);
  return text;
}

function span(label, text) {
  const ms = spanMs(text);
  if (!ms) throw new FilterError(`${label}: “${text}” is not a duration such as 30s, 10m, 2h or 7d`);
  return ms;
}

/** The request's filter for the address's. */
export function filterOf(address) {
  const filter = {};
  for (const [name, , set] of FILTERS) if (address.get(name)) set(filter, address.get(name));
  const statuses = (address.get("status") ?? "").split(",").filter(Boolean), other = statuses.find((name) => !STATUSES.includes(name));
  if (other) throw new FilterError(`Status: there is no status “${other}”`);
  if (filter.runningLongerMs && statuses.some((name) => name !== "executing")) throw new FilterError("Executing for over: choose no status but executing");
  if (filter.runningLongerMs) filter.statuses = [taskStatus("executing")];
  else if (statuses.length) filter.statuses = statuses.map(taskStatus);
  return filter;
}

/** The address's filter for people: "status dead, queue mail". */
const inWords = (address) => [["status", "Status"], ...FILTERS].filter(([name]) => address.get(name))
  .map(([name, label]) => [name, label.toLowerCase(), address.get(name).slice(0, 200)])
  .map(([name, label, value]) => `${label} ${name === "status" ? value.replaceAll(",", " or ") : value}`).join(", ");

export const title = () => "Tasks";
export const every = (data, { filter }) => (data.problem ? 0 : filter.get("before") ? 60000 : 3000);

export async function load({ call, filter }) {
  const tasks = [];
  let before = filter.get("before") ?? "0", warning = "", request;
  try {
    request = filterOf(filter);
    before = whole("before", before);
  } catch (error) {
    if (error instanceof FilterError) return { problem: error.message, tasks, next: "" };
    throw error;
  }
  const more = searchTime(); // an answer checks a limited number of tasks, and may have none of them
  while (tasks.length < PAGE) {
    const answer = await call("TaskService/List", { filter: request, limit: PAGE - tasks.length, beforeId: before });
    tasks.push(...(answer.tasks ?? []));
    warning ||= answer.warning ?? "";
    before = answer.nextBeforeId ?? "0";
    if (before === "0" || !more()) break;
  }
  return { tasks, warning, request, words: inWords(filter), next: before === "0" ? "" : before };
}

function go(event) {
  event.preventDefault();
  const values = {}, form = event.target.closest("form");
  const statuses = new FormData(form).getAll("status");
  if (statuses.length) values.status = statuses.join(",");
  for (const [name] of FILTERS) {
    const input = form.elements[name], { initial, value } = input;
    values[name] = value === initial.replace(/[\r\n]/g, "") ? initial : value.trim(); // an input has one line; what was not edited stays
    input.initial = values[name];
  }
  location.hash = `#/tasks${query(values)}`;
}

function field([name, label, , example], address) {
  const id = `filter-${name}`;
  return h("div", null, h("label", { for: id }, label),
    h("input", { id, name, value: address.get(name) ?? "", placeholder: example, autocomplete: "off", spellcheck: "false" }));
}

function form(address) {
  const chosen = (address.get("status") ?? "").split(",");
  const more = FILTERS.slice(COMMON);
  return h("form", { class: "filters", role: "search", "aria-label": "Filters", on: { submit: go } },
    h("fieldset", null, h("legend", null, "Status"),
      STATUSES.map((name) => h("label", null,
        h("input", { type: "checkbox", name: "status", value: name, checked: chosen.includes(name), on: { change: go } }), name))),
    FILTERS.slice(0, COMMON).map((filter) => field(filter, address)),
    h("details", { open: more.some(([name]) => address.get(name)) }, h("summary", null, "More filters"), h("div", { class: "more" }, more.map((filter) => field(filter, address)))),
    h("button", null, "Show"), " ", h("a", { href: "#/tasks" }, "All"));
}

export const COLUMNS = [
  { head: "Task", cell: (t) => taskLink(t.id) },
  { head: "Status", cell: (t) => status(t.status) },
  { head: "Queue", cell: (t) => t.queue },
  { head: "Type", cell: (t) => [t.type, t.stage && ` (${t.pipeline}: ${t.stage})`] },
  { head: "Attempt", number: true, cell: (t) => `${t.attempt ?? 0}/${t.maxAttempts ?? 0}` },
  { head: "Submitted", cell: (t) => time(t.createdUs) },
  { head: "Due or ended", cell: (t) => time(t.endedUs ?? t.runAtUs) },
  { head: "Took", number: true, cell: (t) => t.processingMs && duration(t.processingMs) },
  { head: "Note", cell: (t) => note(t) },
];
COLUMNS.key = (t) => t.id;

function note(t) {
  if (t.waiting) return word(t.waiting.reason, "WAIT_REASON_");
  if (t.status === "TASK_STATUS_EXECUTING") return [t.worker, t.remark && `: ${t.remark}`];
  return t.lastError && h("span", { class: "error" }, t.lastError.length > 160 ? `${t.lastError.slice(0, 160)}…` : t.lastError);
}

export function view({ tasks, warning, problem, request, words, next }, at) {
  const { filter, may, refresh } = at;
  const before = filter.get("before"), others = Object.fromEntries([...filter].filter(([name]) => name !== "before"));
  return [
    h("h1", { tabindex: "-1" }, "Tasks"),
    form(filter),
    problem ? h("p", { class: "error", role: "alert" }, problem) : null,
    warning ? h("p", { class: "warning", role: "note" }, warning) : null,
    may && tasks.length && (Object.keys(request).length
      ? changeButtons(changesOf(request.statuses), at, (name) => changeMatching(name, { request, words }, refresh), "All that match: ")
      : h("p", { class: "buttons" }, "To change many tasks, choose them by a filter.")),
    problem ? null : table("Tasks, newest first", COLUMNS, tasks, next ? "None was found so far." : "No task matches."),
    paging(["Newest", before && `#/tasks${query(others)}`], ["Older", next && `#/tasks${query({ ...others, before: next })}`]),
  ];
}
