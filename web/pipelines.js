// Pipelines: a list, and a page with the stages of each and the tasks in them.
import { facts, h, paging, table } from "./dom.js";
import { duration, number, query, tasksLink, time } from "./format.js";

const LIST = 200;

export const title = (data, { filter }) => (filter.get("name") ? `Pipeline ${filter.get("name")}` : "Pipelines");
export const every = () => 5000;

export async function load({ call, filter }) {
  const name = filter.get("name");
  if (!name) {
    const answer = await call("PipelineService/List", { limit: LIST, afterName: filter.get("after") ?? "" });
    return { pipelines: answer.pipelines ?? [], more: answer.more };
  }
  const [{ pipeline }, counts] = await Promise.all([call("PipelineService/Show", { name }), call("PipelineService/Status", { name })]);
  return { pipeline, counts: counts.stages ?? [], truncated: counts.truncated };
}

const COLUMNS = [
  { head: "Pipeline", cell: (p) => h("a", { href: `#/pipelines${query({ name: p.name })}` }, p.name) },
  { head: "Stages", cell: (p) => p.stages.map((s) => s.name).join(" → ") },
  { head: "Defined", cell: (p) => time(p.createdUs) },
  { head: "By", cell: (p) => p.source },
];
COLUMNS.key = (p) => p.name;

function stages(pipeline, counts) {
  const of = (stage) => counts.find((c) => c.stage === stage.name) ?? {};
  const count = (head, field, status) => ({
    head, number: true,
    cell: (s) => (Number(of(s)[field] ?? 0) ? tasksLink({ pipeline: pipeline.name, stage: s.name, status }, number(of(s)[field])) : "0"),
  });
  return [
    { head: "Stage", cell: (s) => tasksLink({ pipeline: pipeline.name, stage: s.name }, s.name) },
    { head: "Type", cell: (s) => s.type },
    { head: "Queue", cell: (s) => s.queue },
    { head: "Next", cell: (s) => s.next },
    { head: "Attempts", number: true, cell: (s) => s.maxAttempts },
    { head: "Timeout", number: true, cell: (s) => s.timeoutMs && duration(s.timeoutMs) },
    count("Due", "queued", "queued"), count("Later", "delayed", "queued"), count("Executing", "executing", "executing"), count("Wait for a retry", "failed", "failed"),
  ];
}

export function view(data) {
  if (data.pipelines)
    return [
      h("h1", { tabindex: "-1" }, "Pipelines"),
      table("Pipelines", COLUMNS, data.pipelines, "There is no pipeline."),
      paging(["Next", data.more && `#/pipelines${query({ after: data.pipelines.at(-1).name })}`]),
    ];
  const { pipeline: p, counts, truncated } = data;
  const old = counts.filter((c) => !c.type);
  return [
    h("h1", { tabindex: "-1" }, `Pipeline ${p.name}`),
    facts([["Defined", time(p.createdUs)], ["By", p.source], ["Maximum steps", number(p.maxSteps)], ["Its tasks", tasksLink({ pipeline: p.name }, "all")]]),
    table("Its stages, and the live tasks in them", stages(p, counts), p.stages),
    old.length ? h("p", { class: "warning" }, `Tasks of replaced definitions are in other stages, too: ${old.map((c) => c.stage).join(", ")}.`) : null,
    truncated ? h("p", { class: "empty" }, "Only the first 50,000 tasks of each definition are counted.") : null,
  ];
}
