#!/usr/bin/env bash
# The dashboard with nothing to show, and with a manager, a database or a session that has gone: it says so, and goes on by itself.
# read_sizes.sh and tests/scale/web have it show many tasks.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/e2e/web.bash"

start_postgres
H=http://127.0.0.1:$(free_port)
start_manager manager --http "$H"

# Must be the first test.
test_pages_without_anything_say_so() {
	browse '
		const page = await browser.open(H);
		for (const [address, text] of [["/", "There is no task yet."], ["/tasks", "No task matches."], ["/queues", "There is no queue yet."],
			["/workers", "No worker is alive."], ["/batches", "There is no batch."], ["/pipelines", "There is no pipeline."],
			["/schedules", "There is no schedule."], ["/errors", "No attempt has failed."], ["/callbacks", "There is no callback."],
			["/errors?error=x", "No attempt has failed with it"], ["/callbacks?id=1", "Not found"], ["/tasks/1", "Not found"], ["/queues?name=x", "Not found"], ["/batches?id=1", "Not found"], ["/pipelines?name=x", "Not found"],
			["/workers?name=x", "This worker is not alive."], ["/schedules?name=x", "Not found"]]) {
			await page.show(`${H}/#${address}`);
			await page.see(text);
			assert.doesNotMatch(await page.text(), /undefined|NaN|\bnull\b|\[object/, address);
		}
	'
}

other_manager() { # starts it at $G; it can end and come back
	G=http://127.0.0.1:$(free_port)
	start_manager other --http "$G"
}

test_a_manager_that_is_away_or_restarted() {
	other_manager
	id=$(reeve submit nothing --delay 1d --queue patient)
	browse_aside '
		const page = await browser.open(`${G}/#/tasks?queue=patient`);
		await page.find("a", id);
		await page.show(`${G}/#/tasks/${id}`);
		await page.click("button", "Cancel…");
		await page.see("1 task, which is queued now");
		await step("away");
		await page.click("dialog button", "Cancel");
		await page.find("dialog .error", "the manager does not answer");
		await page.until("document.getElementById(`problem`).innerText.match(/does not answer. Last update at .*; trying again/)");
		await page.see("Timeline"); // what it had stays
		await step("back");
		await page.click("dialog button", "Cancel"); // the same call again
		await page.see("1 task changed.");
		await page.click("dialog button", "Close");
		await page.find("h1 .status", "cancelled");
		await page.until("!document.getElementById(`problem`).innerText");
		await step("away-again");
		await page.click("a", "Schedules"); // a page that was not shown before
		await page.see("No answer");
		await page.see("the manager does not answer");
		await step("back-again");
		await page.see("There is no schedule.");
		await page.until("!document.getElementById(`problem`).innerText");
		await page.eval("{ const { timeout } = AbortSignal; AbortSignal.timeout = (ms) => timeout(ms / 5); } 0");
		await step("frozen");
		await page.until("document.getElementById(`problem`).innerText.match(/does not answer. Last update at .*; trying again/)");
		await step("thawed");
		await page.until("!document.getElementById(`problem`).innerText");
	' G="$G" id="$id"
	at_step away kill_manager other
	at_step back start_manager other --http "$G"
	at_step away-again kill_manager other
	at_step back-again start_manager other --http "$G"
	at_step frozen signal other STOP
	at_step thawed signal other CONT
	wait "$BROWSER"
	expect_eq 1 "$(reeve audit "$id" --json | grep -c '"cancelled"')"
}

test_a_manager_of_another_version_brings_its_own_pages() {
	other_manager
	mkdir "$DIR/bin"
	"$TOP/tests/tools/other_web.py" "$REEVE_BIN/reeve-manager" "$DIR/bin/reeve-manager"
	browse_aside '
		const page = await browser.open(`${G}/#/pipelines`);
		const other = await browser.open(`${G}/#/tasks?queue=x`);
		const folder = () => page.eval("document.querySelector(`script`).src");
		await page.see("There is no pipeline.");
		await other.see("No task matches.");
		await other.click("summary");
		await other.type("#filter-key", "half a k");
		const before = await folder();
		await step("away");
		for (const tab of [page, other]) await tab.see("does not answer");
		await step("upgraded");
		await page.until(`document.querySelector("script").src !== ${JSON.stringify(before)}`);
		await page.see("There is no pipeline.");
		assert.equal(await page.hash(), "#/pipelines");
		await other.until("!document.getElementById(`problem`).innerText");
		assert.equal(await other.eval("document.activeElement.value"), "half a k", "nobody is interrupted");
		await other.eval("document.activeElement.blur()");
		await step("away-again");
		await other.see("does not answer");
		await step("back");
		await other.until(`document.querySelector("script").src !== ${JSON.stringify(before)}`);
	' G="$G"
	at_step away kill_manager other
	REEVE_BIN=$DIR/bin at_step upgraded start_manager other --http "$G"
	at_step away-again kill_manager other
	REEVE_BIN=$DIR/bin at_step back start_manager other --http "$G"
	wait "$BROWSER"
}

test_a_proxy_that_knows_no_manager_for_a_while() {
	browse '
		const page = await browser.open(`${H}/#/pipelines`);
		await page.see("There is no pipeline.");
		let asked = 0;
		await page.tab.route("**/*", (route) => {
			if (!route.request().url().endsWith("/Poll")) asked++; // whether the manager has other files
			return route.fulfill({ status: 404, body: "404 page not found" });
		});
		for (const end = Date.now() + 60000; asked < 2;) {
			assert.ok(Date.now() < end, `asked ${asked} times`);
			await new Promise((resolve) => { setTimeout(resolve, 50); });
		}
		await page.see("There is no pipeline.");
		await page.see("trying again");
		await page.tab.unroute("**/*");
		await page.until("!document.getElementById(`problem`).innerText");
		await page.see("There is no pipeline.");
	'
}

# A tab that was open when its token ended, while a dialog asks.
test_a_session_that_has_ended() {
	token_manager
	reader=$(reeve token create day --role operator)
	next=$(reeve token create next-day --role operator)
	known "$reader"
	known "$next"
	reeve submit nothing --delay 1d --queue old >/dev/null
	browse_aside '
		const page = await browser.open(`${S}/#/queues?name=old`);
		await page.type("#token", reader);
		await page.press("Enter");
		await page.click("button", "Pause…");
		await page.see("1 waiting");
		await step("expire");
		await page.see("The access token has ended. Sign in again.");
		assert.equal(await page.eval("document.querySelectorAll(`dialog`).length + sessionStorage.length"), 0);
		assert.doesNotMatch(await page.text(), /waiting/);
		await page.type("#token", next);
		await page.press("Enter");
		await page.see("next-day operator");
		await page.find("main h1", "Queue old pending");
		await page.until("!document.getElementById(`problem`).innerText");
	' S="$S" reader="$reader" next="$next"
	at_step expire sql "update identities set expires = now() where name = 'day'"
	wait "$BROWSER"
}

# A tab that was hidden when its token ended does not know it, and offers it to a new one. So does another tab, later, with a valid one.
test_a_new_tab_takes_a_valid_token() {
	token_manager
	ends=$(reeve token create ends --role reader)
	valid=$(reeve token create valid --role reader)
	known "$ends"
	known "$valid"
	browse_aside '
		const old = await browser.open(`${S}/#/queues`);
		await old.type("#token", ends);
		await old.press("Enter");
		await old.see("ends reader");
		await old.eval("Object.defineProperty(document, `hidden`, { configurable: true, get: () => true })");
		await step("expire");
		const page = await browser.open("about:blank");
		await page.before(`sessionStorage.setItem("reeve-token", ${JSON.stringify(valid)})`);
		await page.before("const post = BroadcastChannel.prototype.postMessage; BroadcastChannel.prototype.postMessage = function (m) { setTimeout(() => post.call(this, m), m.token ? 300 : 0); };");
		await page.go(`${S}/#/queues`);
		await page.see("valid reader");
		const other = await browser.open("about:blank");
		await other.tab.route("**/reeve.v1.AdminService/WhoAmI", async (route) => { await new Promise((resolve) => { setTimeout(resolve, 1500); }); await route.continue(); });
		await other.go(`${S}/#/queues`);
		await other.see("valid reader");
	' S="$S" ends="$ends" valid="$valid"
	at_step expire expired ends
	wait "$BROWSER"
}

expired() { # NAME: ends an identity, and waits until the manager has noticed
	sql "update identities set expires = now() where name = '$1'"
	wait_until 60 '[ "$(H=$S call AdminService/WhoAmI "{}" -H "authorization: Bearer $ends")" = 401 ]'
}

# It polls a thousand times as often, and comes to hundreds of refreshes in a short time.
test_a_tab_that_is_open_for_long_stays_small() {
	browse '
		const page = await browser.open("about:blank");
		await page.send("Performance.enable");
		await page.hurry(1000);
		await page.show(`${H}/#/`);
		const measure = async (refreshes) => {
			for (let n = 20; n <= refreshes; n += 20) await page.until(`polled["AdminService/Stats"] >= ${n}`); // it goes on
			await page.send("HeapProfiler.collectGarbage");
			const { metrics } = await page.send("Performance.getMetrics");
			return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
		};
		const before = await measure(220), after = await measure(420); // tables of charts have up to 200 rows
		for (const [name, most] of [["Nodes", 500], ["JSEventListeners", 50], ["JSHeapUsedSize", 1e6]])
			assert.ok(after[name] - before[name] < most, `${name}: ${before[name]}, after 200 refreshes ${after[name]}`);
	'
}

# Must be the last test.
test_a_database_that_is_away() {
	other_manager
	reeve submit nothing --delay 1d --queue patient >/dev/null
	browse_aside '
		const page = await browser.open(`${G}/#/queues`);
		await page.find("a", "patient");
		await step("away");
		await page.see("trying again");
		await page.find("a", "patient");
		assert.match(await page.eval("document.getElementById(`problem`).innerText"), /database/);
		await page.click("a", "Schedules");
		await page.see("No answer");
		const late = await browser.open(`${G}/#/queues`);
		await late.see("No answer");
		await step("back");
		await page.see("There is no schedule.");
		await late.find("a", "patient");
		for (const tab of [page, late]) await tab.until("!document.getElementById(`problem`).innerText");
	' G="$G"
	at_step away stop_postgres immediate
	at_step back start_postgres
	wait "$BROWSER"
}

run_tests
