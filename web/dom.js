// Makes elements, and updates those on the page. Text only becomes text: no string is ever parsed as HTML.

const SAFE = /^#/; // links stay in the dashboard

/**
 * h("a", {href: "#/", class: "x", on: {click}}, "text", node, [more], null): an element. Values of `false` and `null` set
 * no attribute.
 */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "on") element.handlers = value;
    else if (name === "value") element.initial = value;
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
  if ("initial" in fresh && (all || old.initial !== fresh.initial)) old.value = old.initial = fresh.initial;
  if (all && "checked" in fresh) old.checked = fresh.checked;
  update(old, [...fresh.childNodes], all);
}

/**
 * Makes the children of `parent` like the fresh ones. Elements that stay keep focus, selection and scroll position, and
 * inputs what was typed, unless `all` replaces that, too.
 */
export function update(parent, fresh, all = false) {
  const old = [...parent.childNodes], wanted = fresh.filter(Boolean);
  wanted.forEach((node, i) => {
    const at = old[i];
    if (!at) parent.append(node);
    else if (at.nodeType !== node.nodeType || at.nodeName !== node.nodeName || at.dataset?.key !== node.dataset?.key) at.replaceWith(node);
    else if (node.nodeType === Node.TEXT_NODE) { if (at.data !== node.data) at.data = node.data; }
    else updateElement(at, node, all);
  });
  old.slice(wanted.length).forEach((node) => node.remove());
}

/** A table: columns are {head, cell(row), number?}. */
export function table(caption, columns, rows, empty = "none") {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", null,
      h("caption", null, caption),
      h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col", class: c.number && "number" }, c.head)))),
      h("tbody", null, rows.map((row) =>
        h("tr", { "data-key": columns.key?.(row) }, columns.map((c) => h("td", { class: c.number && "number" }, c.cell(row))))))));
}

/** A list of names and values; rows without a value are left out. */
export function facts(rows) {
  return h("dl", null, rows.filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** A value as text in its own block. JSON is indented. */
export function block(label, text) {
  let shown = text;
  if (text.length < 200000) try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* it is other text */ }
  if (/\d{16,}/.test(text)) shown = text; // a number of JavaScript would lose digits
  return h("section", null, h("h2", null, label), h("pre", { tabindex: "0", "aria-label": label }, shown));
}
