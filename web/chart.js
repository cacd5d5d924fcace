// The element <live-chart>: lines over time by uPlot. What it shows is also below it in words, and as a table, also without that library.
import uPlot from "./uplot.js";
import { h, table } from "./dom.js";

const HEIGHT = 170;
const dark = matchMedia("(prefers-color-scheme: dark)");
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** The places of values between two that are missing: no line leads there. */
function alone(plot, series) {
  const values = plot.data[series], missing = (value) => value === null || value === undefined;
  return [...values.keys()].filter((i) => !missing(values[i]) && missing(values[i - 1]) && missing(values[i + 1]));
}

class LiveChart extends HTMLElement {
  #data;
  #plot;
  #place;
  #sizes = new ResizeObserver(() => this.#fit());
  #recolour = () => {
    this.#end();
    this.#draw();
  };

  constructor() {
    super();
    const root = this.attachShadow({ mode: "closed" }); // uPlot's elements have styles, which our policy forbids to copies of them
    const style = document.createElement("link"), own = document.createElement("link");
    for (const [link, name] of [[style, "uplot.css"], [own, "style.css"]])
      Object.assign(link, { rel: "stylesheet", href: new URL(name, import.meta.url) });
    this.#place = h("div", { class: "plot", "aria-hidden": "true" });
    root.append(style, own, this.#place);
  }

  /** {lines: [{label, colour: 1…4, dash?}], at: [seconds], values: [[number or null]], format(value)} */
  set data(data) {
    this.#data = data;
    if (this.#plot) this.#plot.setData([data.at, ...data.values]);
    else if (this.isConnected) this.#draw();
  }

  get data() {
    return this.#data;
  }

  connectedCallback() {
    this.#draw();
    this.#sizes.observe(this);
    dark.addEventListener("change", this.#recolour);
  }

  disconnectedCallback() {
    this.#sizes.disconnect();
    dark.removeEventListener("change", this.#recolour);
    this.#end();
  }

  #end() {
    this.#plot?.destroy();
    this.#plot = null;
  }

  #fit() {
    if (!this.clientWidth) return;
    if (this.#plot) this.#plot.setSize({ width: this.clientWidth, height: HEIGHT });
    else this.#draw();
  }

  #draw() {
    if (!this.#data || this.#plot || !this.clientWidth) return;
    const { lines, at, values, format } = this.#data;
    const colour = (name) => () => getComputedStyle(this).getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui" };
    const time = (seconds, long) => (long ? day : clock).format(new Date(seconds * 1000));
    const shown = (u, value) => (value === null || value === undefined ? "–" : format(value));
    this.#plot = new uPlot({
      width: this.clientWidth, height: HEIGHT,
      series: [{ label: "Time", value: (u, x) => (x ? moment.format(new Date(x * 1000)) : "–") },
        ...lines.map((line) => ({ label: line.label, stroke: colour(`--chart-${line.colour}`), dash: line.dash, width: 2, value: shown, points: { show: false, size: 8, fill: colour(`--chart-${line.colour}`), filter: alone } }))],
      scales: { x: { range: (u, low, high) => (low === high ? [low - 60, high + 60] : [low, high]) }, // a first value would stand for years
        y: { range: (u, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, space: 75, values: (u, ticks) => ticks.map((x) => time(x, ticks.at(-1) - ticks[0] > 172800)).map((text, i, all) => (text === all[i - 1] ? "" : text)) },
        { ...axis, size: (u, texts) => Math.max(62, 24 + 7 * Math.max(0, ...(texts ?? []).map((text) => text.length))), values: (u, ticks) => ticks.map((y) => format(y)) }],
      cursor: { drag: { x: false, y: false } },
    }, [at, ...values], this.#place);
  }
}
customElements.define("live-chart", LiveChart);

/** "Submitted: 3, at most 17 at 10:21. …": the latest numbers and the largest ones. */
function words({ lines, at, values, format }) {
  const today = new Date().toDateString(), when = (time) => (time.toDateString() === today ? clock : moment).format(time);
  return lines.map(({ label }, i) => {
    const last = values[i].findLast((value) => value !== null);
    if (last === undefined) return null;
    const most = Math.max(...values[i].filter((value) => value !== null));
    const peak = most ? `, at most ${format(most)} at ${when(new Date(at[values[i].indexOf(most)] * 1000))}` : "";
    return `${label}: ${format(last)}${peak}. `;
  }).filter(Boolean);
}

/** A section with a chart, what it shows in words, and all its numbers as a table. */
export function chart(title, data) {
  const { lines, at, values, format } = data, said = words(data);
  const columns = [{ head: "Time", cell: (i) => moment.format(new Date(at[i] * 1000)) },
    ...lines.map((line, n) => ({ head: line.label, number: true, cell: (i) => (values[n][i] === null ? "" : format(values[n][i])) }))];
  const lastOfMinute = (i) => Math.floor(at[i] / 60) !== Math.floor(at[i + 1] / 60);
  const rows = [...at.keys()].filter((i) => values.some((line) => line[i]) && lastOfMinute(i)).reverse().slice(0, 200);
  return h("section", { class: "chart", "data-key": title }, h("h2", null, title),
    !said.length ? h("p", { class: "empty" }, "Nothing has happened in this time.") : uPlot ? h("live-chart", { data }) : null,
    said.length ? h("p", { class: "said" }, said) : null,
    rows.length ? h("details", null, h("summary", null, "As a table"), table(title, columns, rows)) : null);
}
