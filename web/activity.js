// What managers did and how many tasks there were over time (AdminService.Activity), of all queues or one, as charts.
import { chart } from "./chart.js";
import { h } from "./dom.js";
import { duration, periodStart } from "./format.js";

const MINUTE = 60000, HOUR = 3600000;
// Name: title, duration, unit of the numbers, how often they are read.
const RANGES = {
  hour: ["hour", HOUR, MINUTE, 5000],
  "6h": ["6 hours", 6 * HOUR, MINUTE, MINUTE],
  week: ["week", 168 * HOUR, HOUR, 5 * MINUTE],
};
const SAMPLES_MAX = 1800;
const SETTLED_MS = 15000; // so much of the current minute must be over before it counts: managers add numbers every five seconds
const DEPTHS = [["Due", "queued"], ["Later", "delayed"], ["Executing", "executing"], ["Wait for a retry", "failed"]];

let live = { queue: null, samples: [] }; // how many tasks there were while the page was shown in this tab

const few = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3, notation: "compact" });
const many = new Intl.NumberFormat(undefined, { notation: "compact" });

export const rangeOf = (filter) => (RANGES[filter.get("range")] ? filter.get("range") : "hour");

/** The points of a range. Those that cannot change any more are not read again. */
export async function loadActivity(call, range, before, queue = "") {
  const [, length, unit, every] = RANGES[range];
  const now = Date.now(), from = Math.floor((now - length) / unit) * unit;
  const same = before?.range === range && before.queue === queue;
  if (same && before.read >= periodStart(every)) return before;
  const known = same ? before.points : [];
  const since = known.length ? Math.max(from, Math.floor(before.read / unit) * unit - 2 * unit) : from;
  const { points = [] } = await call("AdminService/Activity", {
    by: unit === MINUTE ? "ACTIVITY_GROUPING_MINUTE" : "ACTIVITY_GROUPING_HOUR", queue, sinceUs: String(since * 1000),
  });
  const fresh = points.map((point) => ({ ...point, at: Number(point.atUs) / 1000 }));
  return { range, queue, read: Date.now(), from, unit, points: [...known.filter(({ at }) => at >= from && at < since), ...fresh] };
}

/** Notes how many tasks there are now, in all or in a queue. */
export function sample(counts, queue = "") {
  if (live.queue !== queue) live = { queue, samples: [] };
  live.samples.push({ at: Date.now(), counts: DEPTHS.map(([, field]) => Number(counts[field] ?? 0)) });
  live.samples.splice(0, live.samples.length - SAMPLES_MAX);
}

/** How many tasks there were: each minute or at most in each hour, and all that this tab has seen. Nothing where nobody looked. */
function depths({ from, unit, points }) {
  const seen = live.samples.filter(({ at }) => at >= from), minutes = new Set(seen.map(({ at }) => Math.floor(at / MINUTE)));
  const noted = points.filter(({ at, max }) => max && !minutes.has(at / MINUTE))
    .map(({ at, max }) => ({ at, counts: DEPTHS.map(([, field]) => Number(max[field] ?? 0)) }));
  const all = [...noted, ...seen].sort((a, b) => a.at - b.at);
  return all.flatMap((one, i) => (i && one.at - all[i - 1].at > 2.5 * unit ? [{ at: one.at - 1, counts: DEPTHS.map(() => null) }, one] : [one]));
}

/** All times of a range with their points; the current one only when something can be said of it. */
function times({ from, unit, points, read }) {
  const found = new Map(points.map((point) => [point.at, point])), all = [];
  for (let at = from + unit; at <= read; at += unit) {
    const over = Math.min(unit, read - at);
    if (over >= Math.min(unit, SETTLED_MS)) all.push({ at, seconds: over / 1000, point: found.get(at) });
  }
  return all;
}

/** `address` returns that of the same page with another range. */
export function charts(activity, range, address) {
  const all = times(activity), deep = depths(activity), at = all.map((time) => time.at / 1000);
  const rate = (count) => all.map(({ point, seconds }) => (point ? Number(count(point) ?? 0) : 0) / seconds);
  const some = { wait: (point) => Number(point.begun ?? 0), duration: (point) => Number(point.completed ?? 0) + Number(point.failed ?? 0) };
  const lasted = (what, field) => all.map(({ point }) => (point && some[what](point) ? Number(point[what + field] ?? 0) : null));
  const links = Object.entries(RANGES).map(([name, [title]]) =>
    h("li", null, h("a", { href: address(name === "hour" ? "" : name), "aria-current": name === range && "true" }, `Last ${title}`)));
  const line = (label, colour, dash) => ({ label, colour, dash });
  return [
    h("ul", { class: "ranges", "aria-label": "Time shown" }, links),
    h("div", { class: "charts" },
      chart("Throughput, tasks a second", { at, format: (value) => few.format(value),
        lines: [line("Submitted", 1), line("Ended", 2, [6, 4])],
        values: [rate((point) => point.submitted), rate((point) => point.ended)] }),
      chart(activity.unit === HOUR ? "Tasks by status, at most in each hour" : "Tasks by status", { at: deep.map((one) => one.at / 1000), format: (value) => many.format(value),
        lines: DEPTHS.map(([label], i) => line(label, i + 1, [undefined, [2, 3], [8, 4], [8, 3, 2, 3]][i])),
        values: DEPTHS.map((depth, i) => deep.map((one) => one.counts[i])) }),
      chart("Times of attempts, about", { at, format: duration,
        lines: [line("Wait, median", 1), line("Wait, 95 %", 2, [6, 4]), line("Duration, median", 3, [2, 3]), line("Duration, 95 %", 4, [8, 3, 2, 3])],
        values: [lasted("wait", "MedianMs"), lasted("wait", "P95Ms"), lasted("duration", "MedianMs"), lasted("duration", "P95Ms")] }),
      chart("Failures, a second", { at, format: (value) => few.format(value),
        lines: [line("Failed attempts", 2), line("Dead tasks", 4, [6, 4])],
        values: [rate((point) => point.failed), rate((point) => point.dead)] })),
  ];
}
