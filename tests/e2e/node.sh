#!/usr/bin/env bash
# The client for Node: submits, waits and a worker, by HTTP.
. "$(dirname "$0")/lib.sh"

start_postgres
H=http://127.0.0.1:$(free_port)
start_manager manager --http "$H" --lease 3s --heartbeat 500ms

js() { # CODE: with a client
	local status=0
	cat >"$DIR/code.mjs" <<-END
		import { Client, ReeveError, TaskFailed } from "$TOP/clients/node/index.js";
		const client = new Client("$H");
		$1
		client.close();
	END
	node "$DIR/code.mjs" || status=$?
	return "$status"
}

worker() { # NAME [TOKEN-FILE]: starts a worker with some handlers
	local name=$1
	cat >"$DIR/$name.mjs" <<-END
		import { setTimeout as sleep } from "node:timers/promises";
		import { Client, Fatal, Retry, Worker } from "$TOP/clients/node/index.js";
		const worker = new Worker(new Client("$H"), { concurrency: 4, name: "$name" });
		worker.handle("again", (task) => {
		  if (task.attempt < 3) throw new Retry("not yet", 100);
		  return task.attempt;
		});
		worker.handle("fatal", () => { throw new Fatal("never"); });
		worker.handle("broken", () => undefined.member);
		worker.handle("patient", (task) => sleep(60000, undefined, { signal: task.signal }));
		worker.handle("slow", async (task) => { await sleep(1000 * task.json()); return { slept: task.json() }; });
		worker.handle("busy", (task) => { for (const end = Date.now() + 1000 * task.json(); Date.now() < end;); });
		await worker.run();
		worker.client.close();
	END
	REEVE_ACCESS_TOKEN_FILE=${2:-} start "$name" node "$DIR/$name.mjs"
	wait_until 20 "alive_workers | grep -qx $name"
}

alive_workers() {
	reeve worker list --json | jq -r 'select(.state == "alive").name'
}

test_tasks_run_and_are_awaited() {
	worker one
	expect_eq '{"slept":0.2}' "$(js 'console.log(await client.wait(await client.submit("slow", 0.2), { timeout: 30000 }));')"
	expect_eq 3 "$(js 'console.log(await client.wait(await client.submit("again", "", { queue: "q", key: "k" })));')"
	expect_match '^task [0-9]+ is dead: never$' "$(js '
		await client.wait(await client.submit("fatal")).catch((error) => console.log(error instanceof TaskFailed && error.message));')"
	id=$(js 'console.log(await client.submit("broken", "", { maxAttempts: 1 }));')
	expect_fail 1 reeve wait "$id"
	expect_eq TypeError "$(reeve show "$id" --json | jq -r .error_code)"
	expect_match 'one.mjs' "$(reeve show "$id" --json | jq -r .stack_trace)"
	expect_eq not_found "$(js 'await client.get(999999).catch((error) => console.log(error instanceof ReeveError && error.code));')"
	expect_match '^deadline_exceeded: task [0-9]+ has not ended$' "$(js '
		await client.wait(await client.submit("none"), { timeout: 200 }).catch((error) => console.log(error.message));')"
	expect_eq 50 "$(js '
		const ids = await client.submitAll(Array(50).fill({ type: "slow", details: 0 }));
		const results = await Promise.all(ids.map((id) => client.wait(id)));
		console.log(results.filter((result) => result === JSON.stringify({ slept: 0 })).length);')"
}

test_a_busy_handler_delays_no_heartbeat() {
	worker one
	id=$(js 'console.log(await client.submit("busy", 5));')
	reeve wait "$id" >/dev/null
	expect_eq 1 "$(reeve show "$id" --json | jq -r .attempt)" 'a lease is shorter'
	expect_eq f "$(sql "select lost from workers where name = 'one' order by id desc limit 1")"
}

test_a_running_task_can_be_cancelled_or_time_out() {
	worker one
	id=$(js 'console.log(await client.submit("patient"));')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = executing ]"
	reeve cancel "$id"
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = cancelled ]"
	id=$(js 'console.log(await client.submit("patient", "", { timeoutMs: 500, maxAttempts: 1 }));')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = dead ]"
	expect_eq timeout "$(reeve show "$id" --json | jq -r .error_code)"
}

test_a_worker_finishes_what_runs_before_it_leaves() {
	worker one
	id=$(js 'console.log(await client.submit("slow", 2));')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = executing ]"
	stop one
	expect_eq 0 "$STATUS"
	expect_eq completed "$(reeve show "$id" --json | jq -r .status)"
	expect_eq '' "$(alive_workers)"
}

test_a_worker_that_has_lost_its_lease_registers_again() {
	worker one
	signal one STOP
	wait_until 20 '[ "$(sql "select lost from workers where name = '"'one'"' order by id desc limit 1")" = t ]'
	signal one CONT
	expect_eq '{"slept":0}' "$(js 'console.log(await client.wait(await client.submit("slow", 0), { timeout: 30000 }));')"
}

test_a_handler_that_does_not_stop_ends_its_worker() {
	worker one
	id=$(js 'console.log(await client.submit("busy", 60));')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = executing ]"
	signal manager STOP
	ended one 20
	expect_eq 137 "$STATUS"
	expect_match "task $id still runs at the end of its lease" "$(cat "$DIR/log/one.log")"
	signal manager CONT
	reeve cancel "$id" # or the next worker runs it
}

test_a_worker_whose_calls_are_refused_says_so_and_ends() {
	ipc=ipc://$DIR/socket
	H=http://127.0.0.1:$(free_port)
	start required "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$ipc" --http "$H" --auth required --lease 20s --heartbeat 1s
	wait_until 60 '"$REEVE_BIN/reeve" --manager "$ipc" stats >/dev/null'
	"$REEVE_BIN/reeve" --manager "$ipc" token create refused --role worker --output "$DIR/token"
	worker refused "$DIR/token"
	id=$("$REEVE_BIN/reeve" --manager "$ipc" submit slow 5)
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = executing ]"
	"$REEVE_BIN/reeve" --manager "$ipc" token revoke refused
	ended refused 20
	expect_eq 1 "$STATUS"
	expect_match 'ReeveError.: unauthenticated: ' "$(cat "$DIR/log/refused.log")"
	reeve cancel "$id"
}

test_it_can_be_installed_from_a_checkout() {
	mkdir "$DIR/program"
	cd "$DIR/program"
	echo '{"type": "module"}' >package.json
	if command -v npm >/dev/null; then
		npm install --offline --no-audit --no-fund "$TOP/clients/node" >"$DIR/npm" 2>&1 || fail "$(cat "$DIR/npm")"
	else
		note 'there is no npm, whose installation is not tested: the package is linked, as npm would do'
		mkdir node_modules
		ln -s "$TOP/clients/node" node_modules/reeve
	fi
	echo "import { Client } from 'reeve'; const client = new Client('$H');
		console.log((await client.call('AdminService/Ping')).databaseUp); client.close();" >program.js
	expect_eq true "$(node program.js)"
}

run_tests
