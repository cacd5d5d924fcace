/**
 * Goes through the dashboard's pages, of a database that load.sql has filled: node walk.mjs ADDRESS WAITING ENDED
 *
 * Prints how long each page took until it was shown, and its longest call, in ms; and the same of twenty pages of a list, one
 * after the other.
 */
import assert from "node:assert/strict";
import { browse } from "../tools/browser.mjs";

const [, , address, waiting, ended] = process.argv;
const middle = Math.floor(ended / 2), last = Number(waiting) + Number(ended);
const PAGES = [
  "/", "/tasks", "/tasks?status=queued", "/tasks?status=failed&queue=queue3", "/tasks?status=dead&newer=7d", "/tasks?queue=queue3&type=t1",
  "/tasks?key=none", "/tasks?code=E1", "/tasks?contains=error+3", "/tasks?error=none", "/tasks?batch=2", "/tasks?older=7d", "/tasks?running=1s",
  `/tasks?before=${middle}`, `/tasks/${middle}`, `/tasks/${last}`, "/queues", "/queues?name=queue3", "/workers", "/workers?gone=1", "/batches",
  "/batches?open=1", "/batches?id=2", "/batches?id=2&tasks=failed", "/pipelines", "/pipelines?name=pipeline+1", "/schedules",
  "/schedules?name=schedule-1", "/errors", "/errors?since=7d", "/errors?by=code", "/errors?code=E1", "/callbacks", "/callbacks?id=1", "/callbacks?state=given_up",
];

await browse(async (browser) => {
  const page = await browser.open("about:blank");
  const measure = async (name, steps) => {
    await page.eval("performance.clearResourceTimings()");
    const begin = performance.now();
    await steps();
    const took = performance.now() - begin;
    const calls = await page.eval(`performance.getEntriesByType("resource").filter((e) => e.name.includes("/reeve.v1.")).map((e) => e.duration)`);
    console.log(`${took.toFixed(0).padStart(6)} ms, longest call ${Math.max(0, ...calls).toFixed(0).padStart(6)} ms  ${name}`);
    assert.equal(await page.eval("document.getElementById(`problem`).innerText"), "", name);
  };
  for (const hash of PAGES) await measure(hash, () => page.show(`${address}/#${hash}`));
  await page.show(`${address}/#/tasks`);
  for (let i = 1; i <= 20; i++)
    await measure(`the next page, ${i}`, async () => {
      const before = await page.hash();
      await page.click("a", "Older");
      await page.until(`location.hash !== ${JSON.stringify(before)} && document.getElementById("main").dataset.shown === location.hash`);
      assert.equal(await page.eval("document.querySelectorAll(`tbody tr`).length"), 50);
    });
});
