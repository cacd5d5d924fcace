/* Calls by @connectrpc/connect-node:  connect.mjs URL DESCRIPTORS  (protoc's FileDescriptorSet of the contract). Prints what each
 * transport gets; all must get the same. */
import { readFileSync } from "node:fs";

import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";

const [, , baseUrl, descriptors] = process.argv;
const files = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const tasks = files.getService("reeve.v1.TaskService");
const admin = files.getService("reeve.v1.AdminService");

function problem(error) {
  if (!(error instanceof ConnectError)) throw error;
  return Code[error.code];
}

async function use(name, transport) {
  const client = createClient(tasks, transport);
  const said = [(await createClient(admin, transport).ping({})).databaseUp];
  const { tasks: [{ id }] } = await client.submit({ tasks: [{ queue: "node", type: "sh", details: "echo " + "y".repeat(3000) }] });
  const { ended: [ended] } = await client.wait({ ids: [id], waitMs: 20000n }, { timeoutMs: 25000 });
  said.push(typeof id, ended.result.trim().length);
  said.push(await client.get({ id: 999999n }).catch(problem));
  const { tasks: [never] } = await client.submit({ tasks: [{ queue: "never", type: "none" }] });
  const wait = { ids: [never.id], waitMs: 60000n };
  said.push(await client.wait(wait, { timeoutMs: 300 }).catch(problem));
  const abort = new AbortController();
  setTimeout(() => abort.abort(), 200);
  said.push(await client.wait(wait, { signal: abort.signal }).catch(problem));
  const many = await Promise.all(Array.from({ length: 40 }, () => client.get({ id })));
  said.push(many.filter((answer) => answer.task.id === id).length);
  console.log(name, ...said);
}

for (const useBinaryFormat of [false, true]) {
  for (const httpVersion of ["1.1", "2"]) {
    for (const useHttpGet of [false, true]) {
      await use("connect", createConnectTransport({ baseUrl, httpVersion, useBinaryFormat, useHttpGet }));
    }
  }
  await use("grpc", createGrpcTransport({ baseUrl, useBinaryFormat }));
}
process.exit();
