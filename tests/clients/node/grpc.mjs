/* Calls by @grpc/grpc-js:  grpc.mjs HOST:PORT FOLDER  (that of the contract's .proto files). Prints what it gets. */
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [, , address, folder] = process.argv;
const files = ["reeve/v1/task.proto", "grpc/health/v1/health.proto", "grpc/reflection/v1/reflection.proto"];
const options = { includeDirs: [folder], longs: String, enums: String, keepCase: true };
const packages = grpc.loadPackageDefinition(loader.loadSync(files, options));
const credentials = grpc.credentials.createInsecure();

function call(client, method, request, options = {}) {
  return new Promise((resolve) => {
    const pending = client[method](request, options, (error, answer) => resolve(error ? grpc.status[error.code] : answer));
    if (options.cancel) setTimeout(() => pending.cancel(), options.cancel);
  });
}

const tasks = new packages.reeve.v1.TaskService(address, credentials);
const { tasks: [{ id }] } = await call(tasks, "Submit", { tasks: [{ queue: "node", type: "sh", details: "echo grpc-js" }] });
const { ended } = await call(tasks, "Wait", { ids: [id], wait_ms: 20000 });
console.log(ended[0].status, ended[0].result.trim());
console.log(await call(tasks, "Get", { id: 999999 }));
const { tasks: [never] } = await call(tasks, "Submit", { tasks: [{ queue: "never", type: "none" }] });
const wait = { ids: [never.id], wait_ms: 60000 };
console.log(await call(tasks, "Wait", wait, { deadline: Date.now() + 300 }));
console.log(await call(tasks, "Wait", wait, { cancel: 200 }));

const health = new packages.grpc.health.v1.Health(address, credentials);
console.log((await call(health, "Check", {})).status);

const reflection = new packages.grpc.reflection.v1.ServerReflection(address, credentials).ServerReflectionInfo();
const answers = reflection[Symbol.asyncIterator]();
reflection.write({ list_services: "*" }); // the stream stays open for the next question
console.log((await answers.next()).value.list_services_response.service.some(({ name }) => name === "reeve.v1.TaskService"));
reflection.write({ file_containing_symbol: "reeve.v1.TaskService.Submit" });
console.log((await answers.next()).value.file_descriptor_response.file_descriptor_proto.length);
reflection.end();
console.log((await answers.next()).done);
process.exit();
