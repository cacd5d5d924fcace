// Callbacks: notifications of batches and tasks by HTTP, and a page of each.
import { CALLBACK_COLUMNS, batchLink, callbackState } from "./batches.js";
import { facts, h, paging, table } from "./dom.js";
import { number, query, taskLink, time, word } from "./format.js";
import { CallError, searchTime } from "./rpc.js";

const LIST = 50, STATES = ["waiting", "delivered", "given_up"];

export const title = ({ callback }) => (callback ? `Callback ${callback.id}` : "Callbacks");
export const every = ({ callback }, { filter }) => (filter.get("before") || callback?.endedUs ? 60000 : 5000);

async function loadOne(call, id) {
  if (!/^\d{1,18}$/.test(id)) throw new CallError("invalid_argument", `id: “${id}” is not a number`);
  const { callbacks: [callback] = [] } = await call("BatchService/Callbacks", { limit: 1, beforeId: String(BigInt(id) + 1n) });
  if (callback?.id !== id) throw new CallError("not_found", `there is no callback ${id}`);
  return { callback };
}

export async function load({ call, filter }) {
  if (filter.get("id")) return loadOne(call, filter.get("id"));
  const callbacks = [], state = STATES.includes(filter.get("state")) ? { state: `CALLBACK_STATE_${filter.get("state").toUpperCase()}` } : {};
  const more = searchTime();
  let before = filter.get("before") ?? "0";
  while (callbacks.length < LIST) {
    const answer = await call("BatchService/Callbacks", { ...state, limit: LIST - callbacks.length, beforeId: before });
    callbacks.push(...(answer.callbacks ?? []));
    before = answer.nextBeforeId ?? "0";
    if (before === "0" || !more()) break;
  }
  return { callbacks, next: before === "0" ? "" : before };
}

function viewOne(c) {
  return [
    h("h1", { tabindex: "-1" }, `Callback ${c.id} `, callbackState(c)),
    c.lastError ? h("section", null, h("h2", null, "Error"), h("p", { class: "error" }, c.lastError)) : null,
    facts([
      ["Event", word(c.event, "CALLBACK_EVENT_")],
      ["Batch", batchLink(c.batchId)],
      ["Task", taskLink(c.taskId)],
      ["Receiver", c.url],
      ["Attempts", number(c.attempts)],
      ["Status of the last answer", c.lastStatus],
      ["Created", time(c.createdUs)],
      ["Next attempt", c.endedUs ? null : time(c.nextUs)],
      ["Ended", time(c.endedUs)],
    ]),
  ];
}

export function view({ callback, callbacks, next }, { filter }) {
  if (callback) return viewOne(callback);
  const state = filter.get("state") ?? "";
  return [
    h("h1", { tabindex: "-1" }, "Callbacks"),
    h("p", null, ["", ...STATES].map((name) => [h("a", { href: `#/callbacks${query({ state: name })}`, "aria-current": state === name && "true" }, name.replace("_", " ") || "all"), " "])),
    table("Callbacks, newest first", CALLBACK_COLUMNS, callbacks, next ? "None was found so far." : "There is no callback."),
    paging(["Older", next && `#/callbacks${query({ state, before: next })}`]),
  ];
}
