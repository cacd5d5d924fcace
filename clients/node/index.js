export { Client, ReeveError, TaskFailed } from "./client.js";
export { Fatal, Retry, Worker } from "./worker.js";
