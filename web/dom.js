// Makes elements, and updates those on the page. Text only becomes text: no string is ever parsed as HTML.

const SAFE = /^#/; // links stay in the dashboard
const DEPTH_MAX = 100; // of JSON that is indented

/**
 * h("a", {href: "#/", class: "x", on: {click}}, "text", node, [more], null): an element. Values of `false` and `null` set
 * no attribute.
 */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "on") element.handlers = value;
    else if (name === "value") element.initial = value;
    else if (name === "data") element.data = value; // of an element that draws itself
    else if (name === "href" && !SAFE.test(value)) throw new Error(`a link must stay here: ${value}`);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : String(child));
  if ("initial" in element) element.value = element.initial;
  return element;
}

/** Handles the events of all elements below `root` that have `on`. So an updated element has its new handlers. */
export function listen(root) {
  for (const type of ["click", "submit", "change", "input"])
    root.addEventListener(type, (event) => {
      for (let at = event.target; at && at !== root.parentNode; at = at.parentNode)
        if (at.handlers?.[type]) {
          at.handlers[type](event);
          return;
        }
    });
}

function updateElement(old, fresh, all) {
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !(name === "open" && old.localName === "details")) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  old.handlers = fresh.handlers;
  if (fresh.localName.includes("-")) old.data = fresh.data;
  if ("initial" in fresh && (all && old.value === old.asked || old.initial !== fresh.initial)) old.value = old.initial = fresh.initial;
  if (all && "checked" in fresh) old.checked = fresh.checked;
  update(old, [...fresh.childNodes], all);
}

/** Notes what inputs have when another view begins to load: only that gives way to the view, not what is typed in that time. */
export function loading(root) {
  for (const input of root.querySelectorAll("input")) input.asked = input.value;
}

const keyOf = (node) => node?.dataset?.key;

/** If what had the focus is gone, the heading gets it: the keyboard goes on there, and not at the top. */
export function keepFocus() {
  if (document.activeElement === document.body) document.querySelector("main h1")?.focus({ preventScroll: true });
}

/** Removes a node, and returns the next one. */
function remove(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

/** Inserts a node, which may be on the page already, and then still has the focus. */
function place(parent, node, before) {
  const focus = document.activeElement;
  parent.insertBefore(node, before);
  if (document.activeElement !== focus) focus.focus({ preventScroll: true });
}

/**
 * Makes the children of `parent` like the fresh ones: those with a `data-key` by that, others by their order. Elements that
 * stay keep focus, selection and scroll position, and inputs what was typed, unless `all` replaces that, too: what was there at `loading`.
 */
export function update(parent, fresh, all = false) {
  const wanted = fresh.filter(Boolean), keys = new Set(wanted.map(keyOf)), kept = new Map();
  for (const node of [...parent.childNodes]) {
    if (!keyOf(node)) continue;
    if (keys.has(keyOf(node))) kept.set(keyOf(node), node);
    else node.remove();
  }
  let at = parent.firstChild;
  for (const node of wanted) {
    const key = keyOf(node), old = key ? kept.get(key) : at && !keyOf(at) ? at : null;
    kept.delete(key);
    if (!old || old.nodeName !== node.nodeName) {
      parent.insertBefore(node, at);
      if (old === at && at) at = remove(at);
      else old?.remove();
      continue;
    }
    while (at !== old && at && !keyOf(at)) at = remove(at);
    if (at === old) at = old.nextSibling;
    else place(parent, old, at);
    if (old.nodeType !== Node.TEXT_NODE) updateElement(old, node, all);
    else if (old.data !== node.data) old.data = node.data;
  }
  while (at) at = remove(at);
}

/** A table: columns are {head, cell(row), number?}. */
export function table(caption, columns, rows, empty = "none") {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption, "data-key": caption },
    h("table", null,
      h("caption", null, caption),
      h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col", class: c.number && "number" }, c.head)))),
      h("tbody", null, rows.map((row) =>
        h("tr", { "data-key": columns.key?.(row) }, columns.map((c) => h("td", { class: c.number && "number" }, c.cell(row))))))));
}

/** Links to other pages of a list; a link is [text, address], and left out without an address. */
export const paging = (...links) => h("p", { class: "paging", "data-key": "paging" },
  links.map(([text, href]) => href && [h("a", { href, "data-key": text }, text), " "]));

/** A list of names and values; rows without a value are left out. */
export function facts(rows) {
  return h("dl", null, rows.filter(([, value]) => value)
    .map(([name, value]) => h("div", { "data-key": name }, h("dt", null, name), h("dd", null, value))));
}

/** Indents JSON, and leaves each string and number as it was written. Throws if it is none, or nested so deep that this would be long. */
function indented(text) {
  const line = () => `\n${"  ".repeat(depth)}`;
  let depth = 0;
  JSON.parse(text);
  return text.replace(/("(?:[^"\\]|\\.)*")|\s+|\{\s*\}|\[\s*\]|[{}[\],:]/g, (part, string) => {
    if (string || part === "[]" || part === "{}") return part;
    if ("{[".includes(part) && ++depth > DEPTH_MAX) throw new Error("nested too deep");
    if ("{[".includes(part)) return part + line();
    if ("}]".includes(part) && depth--) return line() + part;
    return part === "," ? part + line() : part === ":" ? ": " : /^\s/.test(part) ? "" : part.replace(/\s/g, "");
  });
}

/** A value as text in its own block. JSON is indented. */
export function block(label, text) {
  let shown = text;
  if (text.length < 100000) try { shown = indented(text); } catch { /* it is other text */ }
  return h("section", null, h("h2", null, label), h("pre", { tabindex: "0", "aria-label": label }, shown));
}
