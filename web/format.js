// Numbers, times and names for people.
import { h } from "./dom.js";

const count = new Intl.NumberFormat(undefined);
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const today = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export const number = (value) => count.format(Number(value ?? 0));

/** "TASK_STATUS_DEAD" → "dead": without the enumeration's name. */
export function word(value, prefix) {
  return (value ?? "").replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

const UNITS = [["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000], ["ms", 1]];

/** A duration with its two largest units: "2 h 5 m"; below 10 s with a fraction. */
export function duration(ms) {
  ms = Number(ms ?? 0);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10000) return `${(ms / 1000).toFixed(1)} s`;
  const i = UNITS.findIndex(([, size]) => ms >= size), [unit, size] = UNITS[i], large = Math.floor(ms / size);
  const rest = i < 3 ? Math.floor((ms - large * size) / UNITS[i + 1][1]) : 0;
  return rest ? `${large} ${unit} ${rest} ${UNITS[i + 1][0]}` : `${large} ${unit}`;
}

/** A duration as one enters it: "90m". `spanMs` is the way back, and null for other texts. */
export function spanText(ms) {
  const [unit, size] = UNITS.find(([, size]) => ms % size === 0);
  return `${ms / size}${unit}`;
}

export function spanMs(text) {
  const [, count, unit] = /^(\d{1,9})(ms|[smhd])$/.exec(text) ?? [];
  return unit ? String(Number(count) * UNITS.find(([name]) => name === unit)[1]) : null;
}

/** A time in the reader's zone; the exact one on hover. Near ones are said by their distance, unless `clock`. */
export function time(us, clock = false) {
  us = Number(us ?? 0);
  if (!us) return null;
  const at = new Date(us / 1000), away = Date.now() - at;
  const shown = Math.abs(away) < 3600000 && !clock
    ? (away >= 0 ? `${duration(away)} ago` : `in ${duration(-away)}`)
    : (at.toDateString() === new Date().toDateString() ? today : date).format(at);
  const fraction = String(us % 1000000).padStart(6, "0");
  return h("time", { datetime: at.toISOString(), title: `${exact.format(at)} (.${fraction} s)` }, shown);
}

export const taskStatus = (name) => `TASK_STATUS_${name.toUpperCase()}`;

export function status(value) {
  const name = word(value, "TASK_STATUS_");
  return name && h("span", { class: `status ${name}` }, name);
}

/** The hash of a view: query({queue: "mail", type: ""}) is "?queue=mail". */
export function query(parameters) {
  const set = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length ? `?${new URLSearchParams(set)}` : "";
}

/** When the present period of so many milliseconds began: all tabs that read at these times share the answers. */
export const periodStart = (ms) => Date.now() - (Date.now() % ms);

export const taskLink = (id) => (id && id !== "0" ? h("a", { href: `#/tasks/${id}` }, id) : null);
export const tasksLink = (filter, text) => h("a", { href: `#/tasks${query(filter)}` }, text);
