#!/usr/bin/env bash
# The client for Node: submits, waits and a worker, by HTTP.
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/e2e/bad_managers.bash"
. "$TOP/tests/e2e/client_libraries.bash"

start_postgres
start_long_leases

SHELL_OF_WORKER=()
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

# Starts a worker with some handlers. `patient`, `slow` and `busy` write the file NAME.ID when they begin.
worker() { # NAME [TOKEN-FILE]
	local name=$1 before
	cat >"$DIR/$name.mjs" <<-END
		import { existsSync, writeFileSync } from "node:fs";
		import { setTimeout as sleep } from "node:timers/promises";
		import { Client, Fatal, Retry, Worker } from "$TOP/clients/node/index.js";
		const worker = new Worker(new Client("$H".split(" ")), { concurrency: 4, name: "$name" });
		worker.handle("again", (task) => {
		  if (task.attempt < 3) throw new Retry("not yet", 100);
		  return task.attempt;
		});
		worker.handle("fatal", () => { throw new Fatal("never"); });
		worker.handle("broken", () => undefined.member);
		const begin = (task) => writeFileSync(\`$DIR/$name.\${task.id}\`, "");
		worker.handle("patient", (task) => { begin(task); return sleep(60000, undefined, { signal: task.signal }); });
		worker.handle("slow", async (task) => { begin(task); await sleep(1000 * task.json()); return { slept: task.json() }; });
		const binary = { bytes: [255, 0], prefixed: [...Buffer.from("data:application/octet-stream;base64,"), 255] };
		worker.handle("raw", ({ details }) => (binary[details] ? new Uint8Array(binary[details]) : details === "nul" ? "a\\0b" : details));
		worker.handle("vexed", (task) => {
		  if (task.attempt === 1) throw new Retry("at once", 0);
		  throw new RangeError("a\\0b" + "x".repeat(3000000));
		});
		worker.handle("odd", (task) => { throw task.attempt === 1 ? new Retry("later", 5n) : Object.create(null); });
		worker.handle("large", async () => {
		  while (!existsSync("$DIR/large")) await sleep(10);
		  return "x".repeat(1000000);
		});
		worker.handle("huge", ({ details }) => ({ letters: "ä".repeat(600000), quotes: '"'.repeat(900000) })[details]);
		worker.handle("busy", (task) => { begin(task); for (const end = Date.now() + 1000 * task.json(); Date.now() < end;); });
		worker.handle("talks", async (task) => {
		  task.progress(25, "page 1 of 4");
		  task.log("one\\ntwo");
		  while (!existsSync("$DIR/go")) await sleep(50);
		  for (let i = 0; i < 3000; i++) task.log(\`line \${i} \\0\\ud800\`);
		  task.progress(0);
		  return "said";
		});
		await worker.run();
		worker.client.close();
	END
	before=$(worker_incarnation "$name")
	REEVE_ACCESS_TOKEN_FILE=${2:-} start "$name" "${SHELL_OF_WORKER[@]}" node "$DIR/$name.mjs"
	wait_until 60 "[ \$(worker_incarnation $name) -gt $before ]"
}

test_tasks_run_and_are_awaited() {
	worker one
	expect_eq '{"slept":0.2}' "$(js 'console.log(await client.wait(await client.submit("slow", 0.2), { timeout: 30000 }));')"
	expect_eq 3 "$(js 'console.log(await client.wait(await client.submit("again", "", { queue: "q", key: "k" })));')"
	expect_eq 'ff00 ff data:application/octet-stream;base64,AA==' "$(js '
		const raw = (text) => client.submitAndWait("raw", text);
		console.log((await raw("bytes")).toString("hex"), (await raw("prefixed")).subarray(37).toString("hex"), await raw("data:application/octet-stream;base64,AA=="));')"
	expect_eq 610062 "$(js 'console.log((await client.submitAndWait("raw", "nul")).toString("hex"));')"
	# An error of any length and text is one, and a delay of 0 is none.
	id=$(js 'console.log(await client.submit("vexed", "", { maxAttempts: 3, retry: { kind: "RETRY_KIND_LIST", delaysMs: [3600000, 1] } }));')
	expect_fail 1 reeve wait "$id" --max-wait 60s
	expect_eq 'dead 3 RangeError a�b' "$(reeve show "$id" --json | jq -r '"\(.status) \(.attempt) \(.error_code) \(.last_error[:3])"')"
	# Any value may be thrown, and a delay may be a BigInt.
	id=$(js 'console.log(await client.submit("odd", "", { maxAttempts: 2, retry: { kind: "RETRY_KIND_LIST", delaysMs: [3600000] } }));')
	expect_fail 1 reeve wait "$id" --max-wait 60s
	expect_eq "dead 2 the handler's error has no text" "$(reeve show "$id" --json | jq -r '"\(.status) \(.attempt) \(.last_error)"')"
	# Results that are too long for a manager, or for its messages, end their tasks and stop no others.
	for kind in letters quotes; do
		id=$(js "console.log(await client.submit('huge', '$kind'));")
		expect_fail 1 reeve wait "$id" --max-wait 30s
		expect_eq 'dead result-too-long' "$(reeve show "$id" --json | jq -r '"\(.status) \(.error_code)"')"
	done
	expect_eq invalid_argument "$(js 'await client.submit("slow", "x".repeat(1600000)).catch((error) => console.log(error.code));')"
	expect_eq '{"slept":0.1}' "$(js 'console.log(await client.submitAndWait("slow", 0.1, { queue: "q" }));')"
	expect_match '^[0-9]+$' "$(js 'await client.submitAndWait("nobody", "", {}, { timeout: 100 }).catch((error) => console.log(error.id));')"
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
	ids=$(js 'console.log((await client.submitAll(Array(4).fill({ type: "large" }))).join(" "));')
	wait_until 20 '[ "$(reeve list --type large --json | jq -r .status | xargs)" = "executing executing executing executing" ]'
	touch "$DIR/large"
	for id in $ids; do
		expect_eq 1000000 "$(js "console.log((await client.wait('$id', { timeout: 60000 })).length);")" 'one report with all of them is too long'
	done
}

test_a_result_that_a_manager_omits_is_an_error() {
	worker one
	id=$(js 'console.log(await client.submit("raw", "x".repeat(900000)));')
	expect_eq 900000 "$(js "console.log((await client.wait('$id', { timeout: 30000 })).length);")"
	start_short_messages
	expect_match "^failed_precondition: the result of task $id has 900000 bytes, too long" "$(js "
		await client.wait('$id', { timeout: 30000 }).catch((error) => console.log(error.message));")"
}

test_another_manager_is_called() {
	local kind
	for kind in unavailable page silent slow stale; do bad_manager $kind $kind; done
	js "
		const assert = (await import('node:assert')).strict;
		const silent = '${BAD[silent]}', stale = '${BAD[stale]}';
		const ping = (client, request) => client.call('AdminService/Ping', request);
		const near = (urls, timeout = 4000) => new Client(urls, { timeout });
		assert((await ping(near(['${BAD[unavailable]}', '$H']))).nowUs, 'one has no database');
		assert((await ping(near(['${BAD[page]}', '$H']))).nowUs, 'one is no manager');
		const both = near([silent, '$H']);
		await Promise.all([ping(both), ping(both)]);
		const begin = performance.now();
		await ping(both);
		assert(performance.now() - begin < 1500, 'two calls have left the one that does not answer');
		assert.deepEqual(await ping(near('${BAD[slow]}', 500), { text: 'x'.repeat(100000) }), { from: 'slow' }, 'a message is on its way');
		const closed = near([stale, silent]);
		const answer = await ping(closed);
		for (const end = performance.now() + 300; performance.now() < end; ); // so that it does not notice
		assert.deepEqual(await ping(closed), answer, 'its connection is closed');
		for (const [url, code] of [[silent, 'deadline_exceeded'], ['http://127.0.0.1:1', 'unavailable']])
			await ping(near(url, 500)).then(assert.fail, (error) => assert(error.code === code && error.message.includes(url) && error.key, error));
		await assert.rejects(ping(both, { id: 5n }), TypeError);
		both.close();
		closed.close();"
}

test_a_fault_of_a_manager_ends_no_worker() {
	bad_manager faulty faulty "$H"
	H=${BAD[faulty]} worker one
	id=$(js 'console.log(await client.submit("slow", 0));')
	expect_first_attempt "$id"
	stop one
	expect_eq 0 "$STATUS"
}

test_a_worker_leaves_a_frozen_manager() {
	local other both
	other=http://127.0.0.1:$(free_port)
	start_manager other --http "$other" --lease 15s --heartbeat 1s
	REEVE_MANAGER=${URL[manager]}
	both="$other $H"
	H=$both worker two
	id=$(js 'console.log(await client.submit("slow", 4));')
	wait_until 20 '[ -e "$DIR/two.$id" ]'
	signal other STOP
	reeve wait "$id" --max-wait 30s >/dev/null
	signal other CONT
	expect_eq 1 "$(reeve show "$id" --json | jq -r .attempt)"
}

test_handlers_report_progress_and_log_lines() {
	worker one
	id=$(js 'console.log(await client.submit("talks"));')
	wait_until 20 '[ "$(reeve logs "$id" --json | jq -r .text | xargs)" = "one two" ]'
	expect_eq 'executing 25 page 1 of 4' "$(reeve show "$id" --json | jq -r '"\(.status) \(.progress) \(.remark)"')"
	touch "$DIR/go"
	expect_eq said "$(js "console.log(await client.wait('$id', { timeout: 30000 }));")"
	expect_eq '0 page 1 of 4' "$(reeve show "$id" --json | jq -r '"\(.progress) \(.remark)"')"
	reeve logs "$id" --json >"$DIR/lines"
	expect_eq '3002 line 2999 ��' "$(tail -n 1 "$DIR/lines" | jq -r '"\(.number) \(.text)"')" 'NUL and half a character are replaced'
	expect_eq t "$(jq -s -r 'length | if . >= 1000 and . <= 2000 then "t" else . end' "$DIR/lines")"
}

test_a_busy_handler_delays_no_heartbeat() {
	start_short_leases
	worker one
	id=$(js 'console.log(await client.submit("busy", 5));')
	reeve wait "$id" >/dev/null
	expect_eq 1 "$(reeve show "$id" --json | jq -r .attempt)" 'a lease is shorter'
	expect_eq f "$(sql "select lost from workers where name = 'one' order by id desc limit 1")"
}

test_a_running_task_can_be_cancelled_or_time_out() {
	worker one
	id=$(js 'console.log(await client.submit("patient"));')
	wait_until 20 '[ -e "$DIR/one.$id" ]'
	reeve cancel "$id"
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = cancelled ]"
	id=$(js 'console.log(await client.submit("patient", "", { timeoutMs: 500, maxAttempts: 1 }));')
	wait_until 20 "[ \$(reeve show $id --json | jq -r .status) = dead ]"
	expect_eq timeout "$(reeve show "$id" --json | jq -r .error_code)"
}

test_a_worker_finishes_what_runs_before_it_leaves() {
	worker one
	id=$(js 'console.log(await client.submit("slow", 2));')
	wait_until 20 '[ -e "$DIR/one.$id" ]'
	stop one
	expect_eq 0 "$STATUS"
	expect_eq completed "$(reeve show "$id" --json | jq -r .status)"
	expect_eq '' "$(alive_workers)"
}

test_a_worker_that_has_lost_its_lease_registers_again() {
	start_short_leases
	worker one
	signal one STOP
	id=$(reeve submit slow 0 --queue late) # for its waiting Fetch
	wait_until 20 '[ "$(sql "select lost from workers where name = '"'one'"' order by id desc limit 1")" = t ]'
	reeve queue pause late >/dev/null
	signal one CONT
	expect_eq '{"slept":0}' "$(js 'console.log(await client.wait(await client.submit("slow", 0), { timeout: 30000 }));')"
	expect [ ! -e "$DIR/one.$id" ]
	reeve queue resume late >/dev/null
}

test_a_handler_that_does_not_stop_ends_its_worker() {
	start_short_leases
	worker one
	id=$(js 'console.log(await client.submit("busy", 60));')
	wait_until 20 '[ -e "$DIR/one.$id" ]'
	mkfifo "$DIR/full" # the standard error of the other one, which nobody reads
	SHELL_OF_WORKER=(bash -c 'exec 2<>"$0"; head -c 65536 /dev/zero >&2; exec "$@"' "$DIR/full")
	worker two
	others=$(js 'console.log((await client.submitAll(Array(5).fill({ type: "busy", details: 60 }))).join(" "));')
	wait_until 20 'compgen -G "$DIR/two.*" >/dev/null'
	signal short STOP
	ended one 20
	expect_eq 137 "$STATUS"
	ended two 5
	expect_eq 137 "$STATUS"
	expect_match "task $id still runs at the end of its lease" "$(cat "$DIR/log/one.log")"
	signal short CONT
	# shellcheck disable=SC2086
	reeve cancel "$id" $others # or the next worker runs them
}

test_a_worker_whose_calls_are_refused_says_so_and_ends() {
	ipc=ipc://$DIR/socket
	H=http://127.0.0.1:$(free_port)
	start required "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$ipc" --http "$H" --auth required --lease 20s --heartbeat 1s
	wait_until 60 '"$REEVE_BIN/reeve" --manager "$ipc" stats >/dev/null'
	"$REEVE_BIN/reeve" --manager "$ipc" token create refused --role worker --output "$DIR/token"
	worker refused "$DIR/token"
	id=$("$REEVE_BIN/reeve" --manager "$ipc" submit slow 5)
	wait_until 20 '[ -e "$DIR/refused.$id" ]'
	"$REEVE_BIN/reeve" --manager "$ipc" token revoke refused
	ended refused 20
	expect_eq 1 "$STATUS"
	expect_match 'ReeveError.: unauthenticated: ' "$(cat "$DIR/log/refused.log")"
	reeve cancel "$id"
}

test_a_token_file_is_read_again() {
	ipc=ipc://$DIR/socket
	H=http://127.0.0.1:$(free_port)
	start required "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$ipc" --http "$H" --auth required
	wait_until 60 '"$REEVE_BIN/reeve" --manager "$ipc" stats >/dev/null'
	"$REEVE_BIN/reeve" --manager "$ipc" token create js --role submitter --output "$DIR/token"
	expect_match '^[0-9]+ [0-9]+$' "$(REEVE_ACCESS_TOKEN_FILE=$DIR/token js "
		const { execFileSync } = await import('node:child_process');
		const { renameSync } = await import('node:fs');
		const id = await client.submit('nothing');
		delete process.env.REEVE_ACCESS_TOKEN_FILE;
		execFileSync('$REEVE_BIN/reeve', ['--manager', '$ipc', 'token', 'rotate', 'js', '--output', '$DIR/token.new'], { stdio: 'ignore' });
		renameSync('$DIR/token.new', '$DIR/token');
		console.log(id, await client.submit('nothing'));")"
}

test_a_worker_whose_name_is_in_use_waits_and_can_be_stopped() {
	worker one
	start same node "$DIR/one.mjs"
	wait_until 20 'grep -q "cannot register yet: already_exists" "$DIR/log/same.log"'
	stop same
	expect_eq 0 "$STATUS"
}

test_what_cannot_work_is_said_at_once() {
	expect_match '^"tcp://127.0.0.1:7171" is no URL for calls by HTTP' "$(js 'try { new Client("tcp://127.0.0.1:7171"); } catch (error) { console.log(error.message); }')"
	expect_match '^the worker has no handlers' "$(js '
		const { Worker } = await import("'"$TOP"'/clients/node/index.js");
		await new Worker(client).run().catch((error) => console.log(error.message));')"
	[ "$(id -u)" = 0 ] || return 0
	# A user without a name, as in a container.
	cp -r "$TOP/clients/node" "$DIR" && chmod -R a+rX "$DIR"
	expect_eq "54321@$(hostname)" "$(cd "$DIR" && setpriv --reuid 54321 --clear-groups node --input-type=module -e "
		import { Client } from '$DIR/node/index.js'; console.log(new Client('http://localhost').actor);")"
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
