// Actions: a dialog that says what will happen to how many, and then what happened.
import { h, keepFocus } from "./dom.js";
import { number, taskStatus } from "./format.js";
import { repeatable } from "./rpc.js";

/** What a run throws that asks again: the sentence that says what will be affected now. */
class Question extends Error {}

/**
 * Asks, and then does it. `affected(say, signal)` returns the sentence that says what will be affected; `say` shows how far it is.
 * `fields`: {name, label, type, value, required, choices, rows}. `run(values, say, signal)` returns what happened; after an error it can be
 * called again. `done` is called after it.
 */
export function ask({ title, button = title, danger, affected, fields = [], run, done }) {
  const controller = new AbortController(), { signal } = controller;
  const note = h("p", { role: "status" }, "Counting…");
  const act = h("button", { disabled: true, class: danger && "danger" }, button);
  const leave = h("button", { type: "button", on: { click: () => close() } }, "Leave it");
  const say = (text, error) => {
    note.replaceChildren(...[text].flat());
    note.className = error ? "error" : "";
  };
  const submit = async (event) => {
    event.preventDefault();
    if (act.disabled) return;
    act.disabled = true;
    try {
      say(await run(Object.fromEntries(new FormData(event.target)), say, signal));
      act.remove();
      leave.textContent = "Close";
      leave.focus();
    } catch (error) {
      if (signal.aborted) return;
      say(error.message, !(error instanceof Question));
      act.disabled = false;
      if (!dialog.contains(document.activeElement)) act.focus();
    }
    done?.();
  };
  const inputs = fields.map(({ name, label, choices, ...attributes }) => {
    const id = `action-${name}`, tag = choices ? "select" : attributes.rows ? "textarea" : "input";
    return h("div", null, h("label", { for: id }, label),
      h(tag, { id, name, autocomplete: "off", ...attributes }, choices?.map(([value, text]) => h("option", { value }, text)) ?? []));
  });
  const dialog = h("dialog", { "aria-labelledby": "action-title" },
    h("form", { on: { submit } }, h("h2", { id: "action-title" }, title), inputs, note, h("p", { class: "buttons" }, act, " ", leave)));
  const close = () => {
    controller.abort(); // what has been sent still happens
    dialog.close();
    dialog.remove();
    keepFocus();
    done?.();
  };
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    close();
  });
  document.body.append(dialog);
  dialog.showModal();
  Promise.resolve(affected(say, signal)).then((text) => {
    say(text);
    act.disabled = false;
  }, (error) => signal.aborted || say(error.message, true));
  return dialog;
}

/** A row of buttons; an action is [word, title, effect, danger]. `at.may`: the caller may do them. */
export const buttons = (actions, at, run, of = "", lead = "") => at.may
  ? h("p", { class: "buttons", "data-key": "buttons" }, lead, actions.map((action) =>
      [h("button", { class: action[3] && "danger", "data-key": action[0], on: { click: () => run(action) } }, `${action[1]}${of}…`), " "]))
  : null;

export const tasks = (count) => (count === 1 ? "1 task" : `${number(count)} tasks`);

const LIVE = ["queued", "executing", "failed"];
const REASON = [{ name: "reason", label: "Reason, for the audit" }];

/** A change of tasks: its method, its sentence, the statuses of tasks that can have it, its fields, and the request that they make. */
const CHANGES = {
  now: { method: "Retry", title: "Run now", verb: "run now", of: ["queued", "failed"] },
  retry: { method: "Retry", title: "Run again", verb: "run again now", of: ["dead", "cancelled", "completed"] },
  cancel: { method: "Cancel", title: "Cancel", verb: "be cancelled", of: LIVE, danger: true, fields: REASON },
  discard: { method: "Discard", title: "Discard", verb: "end dead, without a retry", of: LIVE, danger: true, fields: REASON },
  priority: {
    method: "Update", title: "Change priority", verb: "get another priority", of: LIVE,
    fields: [{ name: "priority", label: "Priority, higher ones first", type: "number", min: -1000000, max: 1000000, step: 1, value: 0, required: true }],
    request: ({ priority }) => ({ priority: { value: Number(priority) } }),
  },
};

/** Buttons for changes of tasks, by name. */
export const changeButtons = (names, at, run, lead) =>
  buttons(names.map((name) => [name, CHANGES[name].title, "", CHANGES[name].danger]), at, ([name]) => run(name), "", lead);

/** The statuses that a change affects, of those that are chosen; with none chosen all but completed tasks. */
const affects = (name, chosen) => CHANGES[name].of.map(taskStatus)
  .filter((status) => (chosen ? chosen.includes(status) : status !== taskStatus("completed")));

/** The names of the changes that tasks in these statuses can have. */
export const changesOf = (statuses) => Object.keys(CHANGES).filter((name) => affects(name, statuses).length);

/** Returns a function that takes answers, and says what has happened so far, or why nothing has. */
function outcome() {
  let changed = 0, others = 0;
  const notes = { true: new Set(), false: new Set() };
  return (answer) => {
    for (const t of answer.tasks ?? []) {
      if (t.changed) changed++;
      else others++;
      if (t.note) notes[Boolean(t.changed)].add(t.note);
    }
    const said = [...notes[changed > 0]].slice(0, 3).map((note) => ` ${note}.`).join("");
    return `${tasks(changed)} changed${others ? `, ${number(others)} not` : ""}.${said}`;
  };
}

/** Changes one task. */
export function changeTask(name, id, state, done) {
  const { method, title, verb, danger, fields, request = (values) => values } = CHANGES[name], send = repeatable();
  return ask({
    title: `${title}: task ${id}`, button: title, danger, fields, done,
    affected: () => `1 task, which is ${state} now, will ${verb}.`,
    run: async (values, say, signal) => outcome()(await send(`TaskService/${method}`, { ids: [id], ...request(values) }, signal)),
  });
}

/**
 * Changes all tasks that match a filter, which is `words` for people. A call handles up to 1,000; the count is what a dry run finds first.
 * Tasks that are submitted after the dialog has opened are not changed: each call selects those that are older than the dialog. So a call that
 * got no answer is not made again, as it would select by an age that has passed: what is left is counted, and the reader asked again.
 */
export function changeMatching(name, { request: filter, words }, done) {
  const { method, title, verb, danger, fields = [], request = (values) => values } = CHANGES[name];
  const send = repeatable(), happened = outcome(), statuses = affects(name, filter.statuses), began = Date.now();
  let changedTo = "0", unanswered = false; // the id up to which all has been changed, and whether the next call has failed
  const next = (values, dryRun, afterId, signal) => {
    const olderMs = String(Math.max(Number(filter.olderMs ?? 0), Date.now() - began));
    return send(`TaskService/${method}`, { ...values, filter: { ...filter, statuses, afterId, olderMs }, dryRun }, signal);
  };
  const count = async (say, signal) => {
    const sample = name === "priority" ? { priority: { value: 0 } } : {};
    let found = 0, after = changedTo;
    do {
      const answer = await next(sample, true, after, signal);
      found += answer.tasks?.length ?? 0;
      after = answer.nextAfterId ?? "0";
      say(`Counting… ${number(found)}`);
    } while (after !== "0");
    if (!found) throw new Error("No task matches that this can change.");
    return `${tasks(found)} will ${verb}. The filter: ${words}.`;
  };
  return ask({
    title: `${title}: all that match`, button: title, danger, fields, done, affected: count,
    run: async (values, say, signal) => {
      if (unanswered) {
        const question = await count(say, signal);
        unanswered = false;
        throw new Question(question);
      }
      for (;;) {
        unanswered = true;
        const answer = await next(request(values), false, changedTo, signal), text = happened(answer);
        unanswered = false;
        changedTo = answer.nextAfterId ?? "0";
        if (changedTo === "0") return text;
        say(`${text} It goes on…`);
      }
    },
  });
}
