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

const UNITS = [["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000]];

/** A duration with its two largest units: "2 h 5 m"; below 10 s with a fraction. */
export function duration(ms) {
  ms = Number(ms ?? 0);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10000) return `${(ms / 1000).toFixed(1)} s`;
  const i = UNITS.findIndex(([, size]) => ms >= size), [unit, size] = UNITS[i], large = Math.floor(ms / size);
  const rest = i < 3 ? Math.floor((ms - large * size) / UNITS[i + 1][1]) : 0;
  return rest ? `${large} ${unit} ${rest} ${UNITS[i + 1][0]}` : `${large} ${unit}`;
}

/** A time in the reader's zone; the exact one on hover. */
export function time(us) {
  us = Number(us ?? 0);
  if (!us) return null;
  const at = new Date(us / 1000), away = Date.now() - at;
  const shown = Math.abs(away) < 3600000
    ? (away >= 0 ? `${duration(away)} ago` : `in ${duration(-away)}`)
    : (at.toDateString() === new Date().toDateString() ? today : date).format(at);
  const fraction = String(us % 1000000).padStart(6, "0");
  return h("time", { datetime: at.toISOString(), title: `${exact.format(at)} (.${fraction} s)` }, shown);
}

export function status(value) {
  const name = word(value, "TASK_STATUS_");
  return name && h("span", { class: `status ${name}` }, name);
}

/** The hash of a view: query({queue: "mail", type: ""}) is "?queue=mail". */
export function query(parameters) {
  const set = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length ? `?${new URLSearchParams(set)}` : "";
}

export const taskLink = (id) => (id && id !== "0" ? h("a", { href: `#/tasks/${id}` }, id) : null);
export const tasksLink = (filter, text) => h("a", { href: `#/tasks${query(filter)}` }, text);
