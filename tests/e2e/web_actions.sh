#!/usr/bin/env bash
# The dashboard's actions: each says what will happen to how many, does it, and says what happened.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/e2e/web.bash"

start_postgres
H=http://127.0.0.1:$(free_port)
start_manager manager --http "$H"
start_worker worker --name worker

status() { # ID…: prints the statuses of tasks, each once
	sql "select string_agg(distinct status, ',') from (select id, status from tasks union all select task_id, status from task_history) t
		where id in ($(IFS=, && echo "$*"))"
}

test_a_reader_sees_no_actions() {
	token_manager
	reader=$(reeve token create looks --role reader)
	known "$reader"
	expect_fail 1 reeve wait "$(reeve submit sh 'exit 65' --queue of-reader)"
	id=$(reeve submit nothing --delay 1h --queue of-reader)
	reeve schedule add hourly --cron '0 * * * *' nothing >/dev/null
	browse '
		const page = await browser.open(S);
		await page.type("#token", reader);
		await page.press("Enter");
		await page.see("looks reader");
		const pages = [[`#/tasks?queue=of-reader`, id], [`#/tasks/${id}`, "Timeline"], ["#/queues?name=of-reader", "Settings"],
			["#/errors?queue=of-reader&code=exit:65", "exit:65"], ["#/workers", "worker"], ["#/schedules?name=hourly", "Next runs"]];
		for (const [address, text] of pages) {
			await page.show(`${S}/${address}`);
			await page.see(text);
			const buttons = await page.eval(`[...document.querySelectorAll("button")].map((b) => b.innerText).join()`);
			assert.match(buttons, /^Sign out(,Show)?$/, address);
		}
		const refused = await page.eval(`fetch("/reeve.v1.TaskService/Cancel", { method: "POST", body: JSON.stringify({ ids: ["${id}"] }),
			headers: { "content-type": "application/json", authorization: "Bearer " + sessionStorage.getItem("reeve-token") } }).then((r) => r.status)`);
		assert.equal(refused, 403);
	' S="$S" id="$id" reader="$reader"
	reeve schedule remove hourly >/dev/null
	expect_eq queued "$(reeve show "$id" --json | jq -r .status)"
}

three() { # ARGUMENT…: submits a task three times; the ids are in $IDS
	IDS=()
	for _ in 1 2 3; do IDS+=("$(reeve submit "$@")"); done
}

test_actions_on_one_task() {
	later=$(reeve submit echo later --delay 1h)
	dead=$(reeve submit sh "[ -e '$DIR/mended' ]" --retry-limit 0)
	fails=$(reeve submit sh "[ -e '$DIR/mended' ]" --backoff fixed:1h)
	waits=$(reeve submit echo --delay 1h)
	useless=$(reeve submit echo --delay 1h)
	runs=$(reeve submit sh "touch '$DIR/runs'; sleep 100")
	expect_fail 1 reeve wait "$dead"
	wait_until 60 '[ "$(status "$fails")" = failed ] && [ -e "$DIR/runs" ]'
	touch "$DIR/mended"
	browse '
		const page = await browser.open(`${H}/#/tasks/${later}`);
		await page.act("Change priority", "1 task, which is queued now, will get another priority.", { priority: "7" }, "1 task changed.");
		await page.until("document.querySelector(`main`).innerText.match(/Priority\\s+7/)");
		await page.act("Run now", "1 task, which is queued now, will run now.", {}, "1 task changed.");
		await page.find("h1 .status", "completed");
		await page.act("Run again", "1 task, which is completed now, will run again now.", {}, "1 task changed.");
		await page.see("Attempts\n1 of");
		await page.show(`${H}/#/tasks/${fails}`);
		await page.act("Run now", "1 task, which is failed now, will run now.", {}, "1 task changed.");
		await page.find("h1 .status", "completed");
		await page.show(`${H}/#/tasks/${dead}`);
		await page.act("Run again", "1 task, which is dead now, will run again now.", {}, "1 task changed.");
		await page.find("h1 .status", "completed");
		await page.show(`${H}/#/tasks/${waits}`);
		await page.act("Cancel", "1 task, which is queued now, will be cancelled.", { reason: "not needed" }, "1 task changed.");
		await page.find("h1 .status", "cancelled");
		await page.see("not needed");
		await page.show(`${H}/#/tasks/${useless}`);
		await page.act("Discard", "1 task, which is queued now, will end dead, without a retry.", { reason: "no use" }, "1 task changed.");
		await page.find("h1 .status", "dead");
		await page.see("no use");
		await page.show(`${H}/#/tasks/${runs}`);
		await page.act("Cancel", "1 task, which is executing now, will be cancelled.", {}, "1 task changed. its worker stops it.");
		await page.find("h1 .status", "cancelled");
	' later="$later" dead="$dead" fails="$fails" waits="$waits" useless="$useless" runs="$runs"
	expect_eq 7 "$(reeve show "$later" --json | jq -r .priority)"
	expect_eq 2 "$(reeve audit "$later" --json | grep -c '"completed"')"
}

test_actions_on_all_tasks_that_match() {
	three sh "[ -e '$DIR/mended' ]" --queue acts --retry-limit 0
	dead=("${IDS[@]}")
	expect_fail 1 reeve wait "${dead[@]}"
	three nothing --queue later --delay 1h
	later=("${IDS[@]}")
	three nothing --queue useless --delay 1h
	useless=("${IDS[@]}")
	three nothing --queue cancelled --delay 1h
	hangs=$(reeve submit sh 'exec sleep 600' --queue hangs --timeout 1h)
	wait_until 30 '[ "$(status "$hangs")" = executing ]'
	touch "$DIR/mended"
	browse '
		const page = await browser.open(`${H}/#/tasks?status=dead&queue=acts`);
		await page.click("button", "Run again…");
		await page.see("3 tasks will run again now.");
		await page.press("Escape");
		await page.gone("3 tasks will run again now.");
		assert.equal(await page.eval("[...document.querySelectorAll(`main .buttons button`)].map((b) => b.innerText).join()"), "Run again…");
		await page.show(`${H}/#/errors?queue=acts&code=exit:1`); // the page of their error, too
		await page.act("Run again", "3 tasks will run again now.", {}, "3 tasks changed.");
		await page.see("No task waits for a retry after it, or is dead.");
		await page.show(`${H}/#/tasks?queue=later`);
		await page.act("Change priority", "3 tasks will get another priority.", { priority: "-3" }, "3 tasks changed.");
		await page.act("Run now", "3 tasks will run now.", {}, "3 tasks changed.");
		await page.show(`${H}/#/tasks?queue=useless`);
		await page.act("Discard", "3 tasks will end dead, without a retry.", { reason: "no use" }, "3 tasks changed.");
		await page.show(`${H}/#/tasks?queue=cancelled`);
		await page.act("Cancel", "3 tasks will be cancelled.", { reason: "not needed" }, "3 tasks changed.");
		await page.click("button", "Cancel…");
		await page.find("dialog .error", "No task matches that this can change.");
		await page.show(`${H}/#/tasks?queue=hangs&running=1ms`);
		assert.equal(await page.eval("[...document.querySelectorAll(`main .buttons button`)].map((b) => b.innerText).join()"), "Cancel…,Discard…,Change priority…");
		await page.act("Cancel", "1 task will be cancelled.", {}, "1 task changed.");
		await page.show(`${H}/#/tasks?queue=hangs&running=1ms&status=dead`);
		await page.see("Executing for over: choose no status but executing");
		await page.find("form.filters");
	'
	reeve wait "${dead[@]}" "${later[@]}" >/dev/null
	expect_eq completed "$(status "${dead[@]}" "${later[@]}")"
	expect_eq -3 "$(sql "select distinct priority from task_history where queue = 'later'")"
	expect_eq dead "$(status "${useless[@]}")"
	expect_eq cancelled "$(status "${IDS[@]}")"
	wait_until 60 '[ "$(status "$hangs")" = cancelled ]'
}

# The buttons do what the page shows, and change no task that was submitted after the count.
test_actions_on_all_affect_those_that_were_counted() {
	three nothing --queue counted --delay 1h
	sql "update tasks set created = created - interval '10 minutes' where queue = 'counted'"
	browse '
		const page = await browser.open(`${H}/#/tasks`);
		await page.show(`${H}/#/tasks?status=queued,failed&queue=counted`);
		await page.click("button", "Cancel…");
		await page.see("3 tasks will be cancelled. The filter: status queued or failed, queue counted.");
		await page.eval("history.back()"); // the dialog goes with its page
		await page.until("location.hash === `#/tasks` && !document.querySelector(`dialog`)");
		await page.show(`${H}/#/tasks?queue=counted`);
		let go;
		const held = new Promise((resolve) => { go = resolve; });
		await page.tab.route("**/reeve.v1.WebService/Poll", async (route) => { await held; await route.continue().catch(() => {}); });
		await page.click("label", "failed");
		await page.until("location.hash === `#/tasks?status=failed&queue=counted`");
		await page.until("document.querySelector(`main .buttons button`) && !document.querySelector(`main .buttons button:not(:disabled)`)", "no button for what was chosen before");
		await page.type("#filter-type", "typed while it loads");
		go();
		await page.see("No task matches.");
		assert.equal(await page.eval("document.getElementById(`filter-type`).value"), "typed while it loads");
		await page.show(`${H}/#/tasks?queue=counted`);
		let counted;
		const counting = new Promise((resolve) => { counted = resolve; });
		await page.tab.route("**/reeve.v1.TaskService/Cancel", async (route) => { await counting; await route.continue(); }, { times: 1 });
		await page.click("button", "Cancel…");
		await page.see("Counting…");
		assert.equal(await page.eval("document.querySelector(`dialog button:not([type])`).disabled"), true, "the button is disabled until the number is known");
		counted();
		await page.see("3 tasks will be cancelled. The filter: queue counted.");
		await fetch(`${H}/reeve.v1.TaskService/Submit`, { method: "POST", headers: { "content-type": "application/json" },
			body: JSON.stringify({ tasks: [{ queue: "counted", type: "later", delayMs: "86400000" }] }) }).then((r) => r.json());
		await page.eval("{ const now = Date.now; Date.now = () => now() + 60000; } 0"); // the reader takes a minute
		await page.click("dialog button:not([type])", "Cancel");
		await page.see("3 tasks changed.");
	'
	expect_eq cancelled "$(status "${IDS[@]}")"
	expect_eq later "$(sql "select type from tasks where queue = 'counted'")"
}

# Without an answer it is not known what has happened: the tasks are counted again, and the reader is asked again.
test_an_action_on_all_that_is_repeated_affects_those_that_were_counted() {
	three nothing --queue repeated --delay 1h
	sql "update tasks set created = created - interval '10 minutes' where queue = 'repeated'"
	browse_aside '
		const page = await browser.open(`${H}/#/tasks?queue=repeated`);
		const act = () => page.click("dialog button:not([type]):not(:disabled)", "Cancel");
		await page.click("button", "Cancel…");
		await page.see("3 tasks will be cancelled.");
		let olderMs;
		await page.tab.route("**/reeve.v1.TaskService/Cancel", (route) => {
			olderMs = Number(route.request().postDataJSON().filter.olderMs);
			return route.abort();
		}, { times: 1 });
		await act();
		await page.find("dialog .error", "the manager does not answer");
		await step("later");
		await new Promise((resolve) => { setTimeout(resolve, olderMs + 1); }); // it is as old as the tasks were when they were counted
		await page.eval("{ const now = Date.now; Date.now = () => now() + 60000; } 0"); // the reader takes a minute
		await act();
		await page.find("dialog p:not(.error)", "3 tasks will be cancelled. The filter: queue repeated.");
		await page.tab.route("**/reeve.v1.TaskService/Cancel", async (route) => { await route.fetch(); await route.abort(); }, { times: 1 });
		await act();
		await page.find("dialog .error", "the manager does not answer");
		await act();
		await page.find("dialog .error", "No task matches that this can change."); // it had happened
	'
	at_step later reeve submit later --queue repeated --delay 1h
	wait "$BROWSER"
	expect_eq cancelled "$(status "${IDS[@]}")"
	expect_eq later "$(sql "select type from tasks where queue = 'repeated'")"
}

# An action that ends while the page is being loaded: what is loaded is older than it, so it is loaded again.
test_a_page_shows_what_an_action_has_done() {
	id=$(reeve submit unserved --delay 1h)
	reeve cancel "$id" >/dev/null
	browse '
		const page = await browser.open("about:blank");
		await page.hurry("(window.hurried ?? 10)");
		await page.show(`${H}/#/tasks/${id}`);
		await page.click("button", "Run again…");
		await page.see("1 task, which is cancelled now, will run again now.");
		let go, begun;
		const held = new Promise((resolve) => { go = resolve; }), loading = new Promise((resolve) => { begun = resolve; });
		await page.tab.route("**/reeve.v1.WebService/Poll", async (route) => {
			const response = await route.fetch().catch(() => null); // the browser may end, …
			begun();
			await held;
			if (response) await route.fulfill({ response }).catch(() => {}); // … or the page give it up
		});
		await loading;
		await page.eval("window.hurried = 1 / 300"); // from now on it loads again only because of the action
		await page.click("dialog button:not([type])", "Run again");
		await page.see("1 task changed.");
		await page.click("dialog button", "Close");
		go();
		await page.find("h1 .status", "queued");
	' id="$id"
	reeve cancel "$id" >/dev/null
}

test_queues_are_controlled() {
	id=$(reeve submit nothing --queue led --delay 1h)
	browse '
		const page = await browser.open(`${H}/#/queues`);
		await page.click("a", "led");
		await page.act("Pause", "The queue has 1 waiting and 0 executing tasks: running tasks finish, and no other begins", {}, "The queue is paused.");
		await page.find("h1 .status", "paused");
		await page.act("Resume", "its tasks begin again", {}, "The queue is running.");
		await page.find("h1 .status", "pending");
		await page.act("Purge", "all waiting tasks are cancelled", {}, "1 task has ended.");
		await fetch(`${H}/reeve.v1.TaskService/Submit`, { method: "POST", headers: { "content-type": "application/json" },
			body: JSON.stringify({ tasks: [{ queue: "led", type: "nothing", delayMs: "86400000" }] }) });
		await page.until("document.querySelector(`main`).innerText.match(/Waiting\\s+1/)");
		await page.act("Stop", "The queue has 1 waiting and 0 executing tasks: running tasks are cancelled, waiting ones end dead", {}, "The queue is stop");
		await page.find("h1 .status", "stopped");
		await page.act("Start", "waiting tasks can begin", {}, "The queue is ");
		await page.until("document.querySelector(`h1 .status`).innerText !== `stopped`");
	'
	expect_eq cancelled "$(status "$id")"
	expect_eq dead "$(sql "select distinct status from task_history where queue = 'led' and task_id > $id")"
}

test_workers_are_controlled() {
	running=$(reeve submit sh 'exec sleep 600' --timeout 1h) # by `worker`
	wait_until 30 '[ "$(status "$running")" = executing ]'
	start_worker first --concurrency 2
	start_worker second --concurrency 2
	browse '
		const page = await browser.open(`${H}/#/workers`);
		await page.click("a", "first");
		await page.find("h1", "Worker first");
		await page.see("None.");
		await page.act("Scale", "1 worker with 2 slots will run another number of tasks at once", { concurrency: "3" }, "1 worker has got the command.");
		await page.until("/\\/3$/m.test(document.querySelector(`td.number`).innerText)", "three slots");
		await page.act("Pause", "1 worker with 3 slots will take no more tasks until resumed", {}, "1 worker has got the command.");
		await page.find("td .status", "paused");
		await page.act("Resume", "take tasks again", {}, "1 worker has got the command.");
		await page.gone("paused");
		await page.act("Drain", "will take no more tasks, finish the running ones, and leave", {}, "1 worker has got the command.");
		await page.see("This worker is not alive.");
		await page.show(`${H}/#/workers`);
		await page.find("td a", "second");
		await page.act("Scale all", "2 workers with", { concurrency: "5" }, "2 workers have got the command.");
		await page.until("document.querySelector(`table`).innerText.match(/\\/5/g)?.length === 2", "five slots each");
		await page.show(`${H}/#/workers?name=worker`);
		await page.find("section td a", running);
		await page.show(`${H}/#/workers?name=second`);
		await page.act("Stop", "will stop and return running tasks, and leave", {}, "1 worker has got the command.");
		await page.see("This worker is not alive.");
	' running="$running"
	ended first
	ended second
	sql "insert into workers (name, hb_at) select 'many-' || n, now() + interval '1 hour' from generate_series(1, 5500) n"
	browse '
		const page = await browser.open(`${H}/#/workers`);
		await page.see("There are more.");
		await page.click("button", "Drain all…");
		await page.see("5,501 workers with 5,505 slots will take no more tasks");
		await page.click("dialog button", "Leave it");
		await page.show(`${H}/#/workers?name=many-5500`);
		await page.find("td a", "many-5500");
		await page.show(`${H}/#/`); // which reads no more than a thousand
		await page.until("/5,501 with 1,\\d{3}\\+ slots/.test(document.querySelector(`main`).innerText)", "more slots than were counted");
	'
	sql "delete from workers where name like 'many-%'"
	reeve cancel "$running" >/dev/null
}

test_schedules_are_edited_and_controlled() {
	reeve schedule add nightly --cron '0 2 * * *' --zone Europe/Berlin echo night >/dev/null
	browse '
		const page = await browser.open(`${H}/#/schedules`);
		await page.click("a", "nightly");
		await page.see("0 2 * * * (Europe/Berlin)");
		await page.click("button", "Edit…");
		await page.see("1 schedule. Tasks that it has submitted stay as they are.");
		await page.click("dialog button", "Save");
		await page.find("dialog .error", "Nothing was changed.");
		await page.type("#action-cron", "0 99 * * *");
		await page.click("dialog button", "Save");
		await page.until("/99/.test(document.querySelector(`dialog .error`)?.innerText)");
		await page.type("#action-cron", "30 4 * * 1");
		await page.click("dialog button", "Save");
		await page.see("Saved. The next run: ");
		await page.click("dialog button", "Close");
		await page.see("30 4 * * 1 (Europe/Berlin)");
		await page.act("Edit", "1 schedule.", { zone: "UTC", "task.details": "two\nlines", "task.priority": "7", "task.queue": "nights",
			catch_up: "CATCH_UP_POLICY_ALL", max_catch_up: "5", concurrency_policy: "CONCURRENCY_POLICY_FORBID" }, "Saved.");
		await page.see("30 4 * * 1 (UTC)");
		await page.act("Edit", "1 schedule.", { max_catch_up: "6" }, "Saved.");
		await page.see("two\nlines");
		await page.click("button", "Edit…");
		await page.type("#action-every_ms", "90m");
		await page.click("dialog button", "Save");
		await page.find("dialog .error", "Give a cron expression or an interval, not both.");
		await page.type("#action-cron", "");
		await page.type("#action-every_ms", "90 min");
		await page.click("dialog button", "Save");
		await page.find("dialog .error", "“90 min” is not an interval such as 30s, 10m or 2h.");
		await page.type("#action-every_ms", "90m");
		await page.click("dialog button", "Save");
		await page.see("Saved.");
		await page.click("dialog button", "Close");
		await page.see("every 1 h 30 m");
		await page.act("Edit", "1 schedule.", { every_ms: "" }, "Saved. The next run: a manual one.");
		await page.see("manual runs only");
		// The answer is lost: the same again is the same call, and it runs once.
		await page.tab.route("**/reeve.v1.ScheduleService/Run", async (route) => { await route.fetch(); await route.abort(); }, { times: 1 });
		await page.click("main button", "Run now…");
		await page.see("It runs once, in addition to its scheduled times.");
		await page.click("dialog button:not([type]):not(:disabled)");
		await page.find("dialog .error", "the manager does not answer");
		await page.click("dialog button:not([type]):not(:disabled)");
		await page.see("It ran: submitted, task ");
		await page.click("dialog button", "Close");
		await page.find("td", "submitted");
		await page.act("Edit", "1 schedule.", { cron: "0 3 * * *" }, "Saved.");
		await page.act("Pause", "It does not run until it is resumed.", {}, "Done.");
		await page.find("h1 .status", "paused");
		await page.act("Resume", "It runs again, from its next scheduled time on.", {}, "Done.");
		await page.until("!document.querySelector(`h1 .status`)");
	'
	expect_eq '0 3 * * * UTC nights 7 all 6 forbid "two\nlines"' "$(reeve schedule show nightly --json |
		jq -r '"\(.cron) \(.zone // "UTC") \(.task.queue) \(.task.priority) \(.catch_up) \(.max_catch_up) \(.concurrency_policy) \(.task.details | tojson)"')"
	expect_eq 1 "$(reeve schedule runs nightly --json | grep -c '"submitted"')" 'runs'
	# A browser has no CR in a text: details that have some stay as they are.
	reeve schedule add returns --cron '0 2 * * *' echo $'a\r\nb\rc' >/dev/null
	browse '
		const page = await browser.open(`${H}/#/schedules?name=returns`);
		await page.click("button", "Edit…");
		await page.see("1 schedule.");
		await page.click("dialog button", "Save");
		await page.find("dialog .error", "Nothing was changed.");
		await page.type("#action-task\\.priority", "7");
		await page.click("dialog button", "Save");
		await page.see("Saved.");
	'
	expect_eq '7 "a\r\nb\rc"' "$(reeve schedule show returns --json | jq -r '"\(.task.priority) \(.task.details | tojson)"')"
	# A priority of 0 is not the queue's.
	browse '
		const page = await browser.open(`${H}/#/schedules?name=returns`);
		await page.act("Edit", "1 schedule.", { "task.priority": "0" }, "Saved.");
	'
	expect_eq 0 "$(sql "select spec -> 'priority' from schedules where name = 'returns'")"
	reeve schedule remove returns >/dev/null
	reeve schedule add halts --cron '0 2 * * *' --queue-action stop --queue night >/dev/null
	browse '
		const page = await browser.open(`${H}/#/schedules?name=halts`);
		await page.act("Edit", "1 schedule.", { cron: "0 5 * * *" }, "Saved.");
		await page.see("0 5 * * * (UTC)");
		await page.act("Remove", "Its definition is deleted.", {}, "Done.");
		await page.see("It was removed.");
	'
	expect_eq nightly "$(reeve schedule list --json | jq -r .name)"
}

# Must be the last test.
test_a_filter_that_matches_everything_states_the_number() {
	seq -f '{"type":"unserved","queue":"many","details":"%.0f"}' 2500 | reeve submit --bulk - >/dev/null
	count=$(sql "select count(*) from tasks")
	[ "$count" -ge 2500 ] || fail "$count tasks"
	browse '
		const page = await browser.open(`${H}/#/tasks`);
		await page.see("To change many tasks, choose them by a filter.");
		assert.equal(await page.eval("[...document.querySelectorAll(`button`)].some((b) => b.innerText.includes(`…`))"), false);
		await page.show(`${H}/#/tasks?status=queued,executing,failed`);
		const text = Number(count).toLocaleString("en-US");
		await page.act("Cancel", `${text} tasks will be cancelled.`, { reason: "all of them" }, `${text} tasks changed.`);
		await page.see("No task matches.");
	' count="$count"
	expect_eq 0 "$(sql 'select count(*) from tasks')"
}

run_tests
