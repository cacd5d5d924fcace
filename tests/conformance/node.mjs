/* clients/node, for tests/conformance/run. */
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, Worker } from "../../clients/node/index.js";

async function ticks(task) {
  const [, path, seconds] = /(.*) (.*)/.exec(task.details);
  const end = performance.now() + 1000 * Number(seconds);
  while (performance.now() < end) {
    appendFileSync(path, "tick\n");
    await sleep(100, undefined, { signal: task.signal });
  }
}

const worker = new Worker(new Client(process.env.REEVE_URL), { concurrency: 2, name: process.env.REEVE_WORKER });
worker.handle("echo", (task) => task.details);
worker.handle("fail", (task) => {
  throw new Error(task.details);
});
worker.handle("ticks", ticks);
await worker.run();
worker.client.close();
