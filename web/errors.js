// Error groups: the errors of a span, those with the most attempts first, and a page of each with its tasks.
import { changeButtons, changeMatching, changesOf } from "./actions.js";
import { facts, h, table } from "./dom.js";
import { number, periodStart, query, taskLink, tasksLink, time } from "./format.js";
import { searchTime } from "./rpc.js";
import { COLUMNS as TASK_COLUMNS, load as loadTasks } from "./tasks.js";

const EVERY_MS = 15000;
const SPANS = [["1h", "hour", 3600000], ["1d", "day", 86400000], ["7d", "week", 7 * 86400000]];

export const title = ({ chosen }) => (chosen === null ? "Errors" : "Error");
export const every = () => EVERY_MS;

async function loadGroups(call, filter, span, byCode) {
  const groups = new Map();
  const request = {
    by: byCode ? "ERROR_GROUPING_CODE" : "ERROR_GROUPING_TEXT", queue: filter.get("queue") ?? "", type: filter.get("type") ?? "",
    sinceUs: String((periodStart(EVERY_MS) - span[2]) * 1000),
  };
  const more = searchTime();
  let page = "", warning = "";
  do { // a group can be on several pages
    const answer = await call("TaskService/Errors", { ...request, page });
    for (const g of answer.groups ?? []) {
      const key = (byCode ? g.errorCode : g.error) ?? "", group = groups.get(key);
      if (!group) groups.set(key, { ...g });
      else {
        for (const field of ["attempts", "waiting", "dead"]) group[field] = Number(group[field] ?? 0) + Number(g[field] ?? 0);
        group.firstUs = String(Math.min(Number(group.firstUs), Number(g.firstUs)));
      }
    }
    warning ||= answer.warning ?? "";
    page = answer.nextPage ?? "";
  } while (page && more());
  return { groups, warning, more: page !== "" };
}

/** The filter, in an address, for the tasks of a group. */
const tasksOf = (filter, byCode, key) => ({ queue: filter.get("queue"), type: filter.get("type"), [byCode ? "code" : "error"]: key });

export async function load({ call, filter }) {
  const span = SPANS.find(([name]) => name === filter.get("since")) ?? SPANS[1];
  const chosen = filter.get("code") || filter.get("error") || null, byCode = chosen === null ? filter.get("by") === "code" : Boolean(filter.get("code"));
  const [{ groups, warning, more }, list] = await Promise.all([
    loadGroups(call, filter, span, byCode),
    chosen && loadTasks({ call, filter: new URLSearchParams(query({ ...tasksOf(filter, byCode, chosen), status: "failed,dead" })) }),
  ]);
  return { groups: [...groups.values()].sort((a, b) => Number(b.attempts) - Number(a.attempts)), group: groups.get(chosen), chosen, list, span, byCode, warning, more };
}

const count = (field, filter, status) => (g) => (Number(g[field] ?? 0) ? tasksLink({ ...filter(g), status }, number(g[field])) : "0");

function columns(byCode, filter, since) {
  const of = (g) => tasksOf(filter, byCode, byCode ? g.errorCode : g.error);
  const text = (g) => ((g.error ?? "").length > 300 ? `${g.error.slice(0, 300)}…` : g.error || "none");
  const link = (g) => (g.error && (!byCode || g.errorCode) ? h("a", { class: "error", href: `#/errors${query({ ...of(g), since })}` }, text(g)) : text(g));
  return [
    { head: "Error", cell: link },
    { head: "Code", cell: (g) => g.errorCode },
    { head: "Attempts", number: true, cell: (g) => number(g.attempts) },
    { head: "Wait for a retry", number: true, cell: count("waiting", of, "failed") },
    { head: "Dead", number: true, cell: count("dead", of, "dead") },
    { head: "First", cell: (g) => time(g.firstUs) },
    { head: "Last", cell: (g) => time(g.lastUs) },
    { head: "Example", cell: (g) => taskLink(g.exampleId) },
  ];
}

const uncounted = (more) => (more ? h("p", { class: "empty" }, "Older attempts were not counted.") : null);

function viewGroup({ group: g, chosen, list, span, byCode, warning, more }, at) {
  const { filter } = at, of = () => tasksOf(filter, byCode, chosen), { tasks, request, next } = list;
  return [
    h("h1", { tabindex: "-1" }, byCode ? `Error ${chosen}` : "Error"),
    warning ? h("p", { class: "warning" }, warning) : null,
    tasks.length ? changeButtons(changesOf(request.statuses), at, (name) => changeMatching(name, list, at.refresh), "All tasks with it: ") : null,
    h("p", { class: "error" }, byCode ? g?.error : chosen),
    g ? facts([
      ["Code", g.errorCode],
      [`Attempts in the last ${span[1]}`, number(g.attempts)],
      ["Wait for a retry", count("waiting", of, "failed")(g)],
      ["Dead", count("dead", of, "dead")(g)],
      ["First", time(g.firstUs)],
      ["Last", time(g.lastUs)],
      ["Queue", filter.get("queue")],
      ["Type", filter.get("type")],
    ]) : h("p", { class: "empty" }, `${more ? "None of the latest attempts" : "No attempt"} has failed with it in the last ${span[1]}.`),
    uncounted(more),
    table("Tasks with it that wait for a retry or are dead", TASK_COLUMNS, tasks, next ? "None was found so far." : "No task waits for a retry after it, or is dead."),
    next ? h("p", null, tasksLink({ ...of(), status: "failed,dead" }, "All")) : null,
  ];
}

export function view(data, at) {
  if (data.chosen !== null) return viewGroup(data, at);
  const { groups, span, byCode, warning, more } = data, { filter } = at;
  const queue = filter.get("queue") ?? "", type = filter.get("type") ?? "", by = byCode ? "code" : "", since = span[0];
  return [
    h("h1", { tabindex: "-1" }, queue ? `Errors of the queue ${queue}` : "Errors"),
    warning ? h("p", { class: "warning" }, warning) : null,
    h("p", null, "Of the last ", SPANS.map(([name, text]) => [h("a", { href: `#/errors${query({ queue, type, by, since: name })}`, "aria-current": since === name && "true" }, text), " "]),
      "by ", [["", "text"], ["code", "code"]].map(([name, text]) => [h("a", { href: `#/errors${query({ queue, type, since, by: name })}`, "aria-current": by === name && "true" }, text), " "])),
    table("Errors, those with the most attempts first", columns(byCode, filter, since), groups, "No attempt has failed."),
    uncounted(more),
  ];
}
