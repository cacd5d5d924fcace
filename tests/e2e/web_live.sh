#!/usr/bin/env bash
# The dashboard's charts, and what its pages cost: bytes, time, and statements of the database.
# timeout 900
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/web.bash"

start_postgres
H=http://127.0.0.1:$(free_port)
start_manager manager --http "$H"
start_worker worker --name worker

# Ten minutes ago, and in an hour three hours ago: 600 tasks were submitted, 300 attempts completed and 60 failed.
sql "insert into routes (queue, type) values ('past', 'task')"
sql "insert into activity select h, date_trunc(u, now() - ago), (select id from routes where queue = 'past'), 600, 360, 300, 60, 0, 30, 330,
	array_fill(0, array[10]) || 360::bigint || array_fill(0, array[10]), 36000000, array_fill(0, array[12]) || 360::bigint || array_fill(0, array[8]), 180000000
	from (values (false, 'minute', interval '10 minutes'), (true, 'hour', '3 hours')) v(h, u, ago)"
# Then there were 40 due tasks, 8 minutes ago 20, and in that hour at most 70.
sql "insert into depths select h, date_trunc(u, now() - ago), q, 1, n, 0, 0, 0, 0, most, 0, 0, 0, 0
	from (values (false, 'minute', interval '10 minutes', 40, 40), (false, 'minute', '8 minutes', 20, 20), (true, 'hour', '3 hours', 30, 70)) v(h, u, ago, n, most),
		(values (''), ('past')) q(q)"
sql "insert into depths select true, date_trunc('hour', now() - interval '2 days'), '', 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0"

UPLOT=true
grep -qx 'export default null;' "$(dirname "$REEVE_BIN")/generated/web/libraries/uplot.js" && UPLOT=false && note 'npm could not install the library of charts: nothing is drawn'

CHARTS='
	const uplot = '"$UPLOT"';
	'"$PAGE"'
	const said = (title) => page.eval(`[...document.querySelectorAll(".chart")].find((c) => c.querySelector("h2").innerText.startsWith("${title}")).querySelector(".said")?.innerText ?? ""`);
	const rows = (title) => page.eval(`[...[...document.querySelectorAll(".chart")].find((c) => c.querySelector("h2").innerText.startsWith("${title}")).querySelectorAll("tbody tr")].map((tr) => [...tr.children].map((td) => td.textContent))`);
	const canvas = (n) => `document.querySelectorAll("live-chart")[${n}].shadowRoot.querySelector("canvas")`;
	const drawn = (n, name) => !uplot || page.until(`(() => { // pixels of the colour with that name
		const style = getComputedStyle(document.documentElement).getPropertyValue("${name}").trim();
		const [r, g, b] = [1, 3, 5].map((at) => parseInt(style.slice(at, at + 2), 16));
		const canvas = ${canvas(n)}, { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
		let found = 0;
		for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] > 200) found++;
		return found > 20;
	})()`, `chart ${n} is drawn in ${name}`);
'

test_charts_show_the_history_and_what_happens_now() {
	browse "$CHARTS"'
		await page.see("at most 10 at");
		assert.match(await said("Throughput"), /^Submitted: .*, at most 10 at .*Ended: .*, at most 5.5 at/);
		assert.match(await said("Failures"), /^Failed attempts: .*, at most 1 at .*Dead tasks: .*, at most 0.5 at/);
		assert.match(await said("Times"), /^Wait, median: [\d.]+ m?s, .*Duration, 95 %: [\d.]+ m?s/);
		await page.find(".chart h2", "Times of attempts, about"); // the histogram has 21 buckets
		for (const n of [0, 1, 2]) await drawn(n, "--chart-1");
		await drawn(3, "--chart-2");
		// The history of how many tasks there were is there at once, and none of when nobody looked.
		assert.match(await said("Tasks by status"), /^Due: .*, at most 40 at/);
		assert.deepEqual(await rows("Tasks by status").then((all) => all.map(([, due]) => due).filter((due) => due !== "0")), ["20", "40"]);
		const before = uplot && await page.eval(`${canvas(1)}.toDataURL()`);
		await page.eval(`fetch("/reeve.v1.TaskService/Submit", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({
			tasks: Array.from({ length: 7 }, () => ({ queue: "later", type: "nothing", runAtUs: String((Date.now() + 86400000) * 1000) })) }) }).then((r) => r.json())`);
		await page.see("Later: 7, at most 7 at");
		if (uplot) await page.until(`${canvas(1)}.toDataURL() !== ${JSON.stringify(before)}`, "the chart changes");
		// For who cannot see the picture: the same in words, and as a table that stays open.
		assert.equal(await page.eval(`[...document.querySelectorAll("live-chart")].every((c) => [...c.shadowRoot.children].every((e) => e.localName === "link" || e.ariaHidden === "true"))`), true);
		await page.click(".chart summary");
		await page.until(`[...document.querySelectorAll(".chart details[open] td")].some((td) => td.innerText === "10")`, "the table");
		const polls = `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/Poll")).length`, seen = await page.eval(polls);
		await page.until(`${polls} > ${seen + 1}`);
		assert.equal(await page.eval(`document.querySelectorAll(".chart details[open]").length`), 1);
		await page.click("a", "Last week");
		await page.until(`document.querySelector(".ranges [aria-current]").innerText === "Last week"`);
		assert.equal(await page.hash(), "#/?range=week");
		await page.until(`[...document.querySelectorAll(".chart details[open] td")].some((td) => td.innerText === "0.167")`, "600 tasks in an hour");
		await page.see("at most 70 at");
		assert.match(await said("Tasks by status"), /Later: [^.]*, at most 9 at [^.]*\d{4}/, "of another day with its date");
		// After half an hour in which the tab was hidden, that half hour is read, too.
		const [sinceUs, read] = await page.eval(`import(new URL("activity.js", document.querySelector("script[type=module]").src)).then(async ({ loadActivity }) => {
			let asked;
			const read = Date.now() - 30 * 60000, before = { range: "hour", queue: "", read, points: [{ at: read - 10 * 60000 }] };
			await loadActivity(async (method, { sinceUs }) => { asked = sinceUs; return {}; }, "hour", before);
			return [asked, read];
		})`);
		assert.ok(sinceUs / 1000 <= read && sinceUs / 1000 > read - 4 * 60000, `what was read ${(read - sinceUs / 1000) / 1000} s before is read again`);
	'
}

test_depths_of_a_queue_are_on_its_page() {
	reeve submit nothing --queue deferred --delay 1d >/dev/null
	browse "$CHARTS"'
		await page.go(`${H}/#/queues?name=past`);
		await page.until(`document.querySelectorAll(".chart").length === 4`);
		await page.see("at most 40 at");
		await drawn(1, "--chart-1");
		assert.match(await said("Throughput"), /^Submitted: .*, at most 10 at/);
		assert.deepEqual(await rows("Tasks by status").then((all) => all.map(([, due]) => due).filter((due) => due !== "0")), ["20", "40"]);
		await page.click("a", "Last week");
		await page.see("at most 70 at");
		assert.equal(await page.hash(), "#/queues?name=past&range=week");
		await page.go(`${H}/#/queues?name=deferred`);
		await page.see("Later: 1, at most 1 at");
	'
}

test_charts_fit_in_the_dark_and_on_a_phone() {
	sql "with r as (insert into routes (queue, type) values ('slow', 'task') returning id)
		insert into activity select false, date_trunc('minute', now() - interval '5 minutes'), id, 9, 9, 9, 0, 0, 0, 9,
		array_fill(0, array[10]) || 9::bigint || array_fill(0, array[10]), 900000, array_fill(0, array[17]) || 9::bigint || array_fill(0, array[3]), 900000000 from r"
	browse "$CHARTS"'
		await page.see("at most 10 at");
		const light = await page.eval(`getComputedStyle(document.documentElement).getPropertyValue("--chart-1")`);
		await page.dark(true);
		assert.notEqual(await page.eval(`getComputedStyle(document.documentElement).getPropertyValue("--chart-1")`), light);
		await drawn(0, "--chart-1");
		await page.size(360, 740);
		if (uplot) await page.until(`${canvas(0)}.getBoundingClientRect().width <= 340`, "the chart is narrower");
		await page.until(`document.documentElement.scrollWidth <= 360`, "nothing is wider than the phone");
		await drawn(0, "--chart-1");
		await page.before(`window.labels = []; const fill = CanvasRenderingContext2D.prototype.fillText; CanvasRenderingContext2D.prototype.fillText = function (text, x, ...more) {
			if (this.textAlign === "right") labels.push([text, x - this.measureText(text).width]);
			return fill.call(this, text, x, ...more);
		}`);
		await page.tab.reload();
		await page.go(`${H}/#/queues?name=slow`);
		if (uplot) await page.until(`labels.some(([text]) => /^\\d+ m \\d+ s$/.test(text))`, "the times of attempts");
		assert.deepEqual(await page.eval(`labels.filter(([, left]) => left < 0)`), []);
	'
}

# Each is caused, and gone when it has been repaired.
test_the_overview_names_what_needs_attention() {
	reeve submit sh true --queue stuck --wait # the queue's first type has no due task
	stuck=$(reeve submit unserved --queue stuck)
	reeve submit nothing --queue halted >/dev/null
	reeve queue pause halted >/dev/null
	reeve submit nothing --queue halted >/dev/null
	dead=$(reeve submit sh 'exit 65')
	expect_fail 1 reeve wait "$dead"
	sql "update task_history set created = created - interval '2 hours' where task_id = $dead"
	# A schedule that waits for the end of its run before.
	reeve schedule add overdue --every 1h --concurrency-policy queue sh 'exec sleep 600' --timeout 1h >/dev/null
	reeve schedule run overdue >/dev/null
	wait_until 60 '[ "$(reeve list --where status=executing --json | jq -s length)" = 1 ]'
	sql "update schedules set next_at = now() - interval '10 minutes' where name = 'overdue'"
	sql 'alter table metrics set unlogged' # what reeve doctor finds
	browse_aside '
		const page = await browser.open(H);
		await page.see("The oldest due task waits for ");
		await page.find(".findings a", stuck);
		await page.see("a type that no worker takes: unserved");
		await page.see("in queues that are paused, stopped or not started: halted");
		await page.see("ended dead within the last hour: exit:65");
		await page.see("1 schedule is late: overdue");
		await page.find("li.critical strong", "schema:");
		await page.see("schema: metrics: ");
		assert.deepEqual(await page.eval(`[...document.querySelectorAll(".findings li")].map((li) => li.innerText).filter((text) => text.includes("unserved"))`),
			["1 task has a type that no worker takes: unserved in queue stuck. Start a worker with a handler for it that serves its queue."], "once");
		await page.until(`[...document.querySelectorAll("tr")].find((tr) => tr.cells[0].innerText === "stuck")?.querySelector("td:last-child time")`, "since when the oldest is due");
		await page.find("td a", "worker");
		await page.find("a", "All workers (1)");
		await page.click(".findings a", "overdue");
		await page.find("h1", "Schedule overdue");
		await page.show(`${H}/#/`);
		await page.click(".findings a", "1 task");
		await page.find("td a", dead); // though it was submitted two hours ago
		await step("repaired");
		const end = Date.now() + 60000; // other tabs may have what was read a second ago
		do {
			assert.ok(Date.now() < end, await page.text());
			await page.show(`${H}/#/tasks`);
			await page.show(`${H}/#/`);
		} while (/is late|are late|metrics: /.test(await page.text()));
	' stuck="$stuck" dead="$dead"
	at_step repaired repair
	wait "$BROWSER"
	reeve cancel "$stuck" >/dev/null
}

repair() {
	sql 'alter table metrics set logged'
	reeve schedule pause overdue >/dev/null
	reeve cancel "$(reeve list --where status=executing --json | jq -r .id)" >/dev/null
	reeve queue resume halted >/dev/null
}

# The database does not notice how many tabs there are.
test_many_tabs_cost_the_database_as_much_as_one() {
	browse '
		const polls = `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/Poll")).length`;
		const READS = ["queue_counts", "stats", "worker_list", "check", "activity"];
		const statements = async () => {
			const text = await (await fetch(`${H}/metrics`)).text();
			return READS.map((name) => Number(text.match(new RegExp(`statement_duration_seconds_count\\{[^}]*"${name}"\\} (\\d+)`))?.[1] ?? 0));
		};
		const hide = (page, hidden) => page.eval(`Object.defineProperty(document, "hidden", { configurable: true, get: () => ${hidden} }); document.dispatchEvent(new Event("visibilitychange"))`);
		const pages = [];
		for (let n = 0; n < 8; n++) pages.push(await browser.open(H));
		for (const page of pages) {
			await hide(page, false);
			await page.see("Ended a second");
		}
		const began = Date.now(), before = await statements(), seen = await Promise.all(pages.map((page) => page.eval(polls)));
		await Promise.all(pages.map((page, n) => page.until(`${polls} >= ${seen[n] + 5}`)));
		await new Promise((resolve) => { setTimeout(resolve, 1100); }); // the page of the metrics is written once a second
		const after = await statements(), most = (Date.now() - began) / 1000 + 2;
		for (const [i, name] of READS.entries()) {
			const made = after[i] - before[i];
			assert.ok(made >= 1 && made <= most, `${name}: ${made} statements for 40 polls, at most ${most}`);
		}
		const [hidden, other] = pages;
		await hide(hidden, true);
		await other.until(`${polls} >= ${await other.eval(polls) + 2}`); // what had begun has ended
		const still = await hidden.eval(polls);
		await other.until(`${polls} >= ${await other.eval(polls) + 3}`);
		assert.equal(await hidden.eval(polls), still, "a hidden tab makes no calls");
		await hide(hidden, false);
		await hidden.until(`${polls} > ${still}`);
	'
}

# What is read once a minute, too: all tabs read it at the same moment. Their clocks are ten times as fast.
test_many_tabs_read_seldom_at_the_same_moment() {
	browse '
		const begin = Date.now();
		const statements = async (name) => Number((await (await fetch(`${H}/metrics`)).text()).match(new RegExp(`statement_duration_seconds_count\\{[^}]*"${name}"\\} (\\d+)`))?.[1] ?? 0);
		const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
		for (const [address, call, statement, every] of [["/", "AdminService/Doctor", "doctor", 60000], ["/errors", "TaskService/Errors", "errors", 15000]]) {
			const tabs = [], calls = `(polled["${call}"] ?? 0)`;
			for (let n = 0; n < 4; n++) {
				const page = await browser.open("about:blank");
				await page.hurry(10);
				await page.before(`Object.defineProperty(document, "hidden", { get: () => false });
					const now = Date.now;
					Date.now = () => ${begin} + (now() - ${begin}) * 10;`);
				await page.show(`${H}/#${address}`);
				tabs.push(page);
				await pause(1200); // longer than answers are kept
			}
			for (const page of tabs) await page.until(`${calls} >= 2`);
			const began = Date.now(), before = await statements(statement), seen = await Promise.all(tabs.map((page) => page.eval(calls)));
			await Promise.all(tabs.map((page, n) => page.until(`${calls} >= ${seen[n] + 3}`)));
			await pause(1100);
			const made = (await statements(statement)) - before, turns = (Date.now() - began) * 10 / every;
			assert.ok(made >= 1 && made <= 2 * turns + 1, `${made} statements of ${statement} in ${turns} turns of four tabs`);
			for (const page of tabs) await page.close();
		}
	'
}

# As the browser sees it. What changes appears all the same, also what needs several calls.
test_a_tab_has_one_request_at_a_time() {
	id=$(reeve submit sh "until [ -e $DIR/single ]; do sleep 0.1; done" --queue single)
	browse_aside '
		const watched = await Promise.all([["/", "Ended a second"], ["/queues?name=single", "Executing"], [`/tasks/${id}`, "executing"]].map(async ([address, text]) => {
			const page = await browser.open("about:blank");
			await page.before("Object.defineProperty(document, `hidden`, { get: () => false })");
			await page.show(`${H}/#${address}`);
			await page.see(text);
			await page.until(`performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/Poll")).length >= 2`); // its files have come
			return [page, page.watch(), address];
		}));
		const began = Date.now();
		const polls = async (n) => {
			for (const end = Date.now() + 60000; watched.some(([, { paths }]) => paths.length < n);) {
				assert.ok(Date.now() < end, "polls");
				await new Promise((resolve) => { setTimeout(resolve, 50); });
			}
		};
		await polls(3);
		await step("go");
		await watched[2][0].find("h1 .status", "completed");
		await watched[1][0].until("document.querySelector(`main`).innerText.match(/Completed\\s+1/)");
		const most = (Date.now() - began) / 2000 + 6;
		assert.ok(watched[0][1].paths.length <= most, `the manager lets it wait: ${watched[0][1].paths.length} requests, at most ${most}`);
		for (const [page, { most, paths }, address] of watched) {
			assert.equal(most, 1, `${address}: ${paths}`);
			assert.deepEqual([...new Set(paths)].filter((path) => path !== "/"), ["/reeve.v1.WebService/Poll"], address); // or once a minute, whether it is up to date
		}
		// The page that was left ends its request.
		const [[page, seen]] = watched, enough = (n) => page.until(`performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/Poll")).length >= ${n}`);
		await page.click("a", "Queues");
		await page.find("main h1", "Queues");
		const polled = await page.eval(`performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/Poll")).length`);
		await enough(polled + 1);
		seen.most = 0;
		await enough(polled + 3);
		assert.equal(seen.most, 1, "after another page was chosen");
	' id="$id"
	at_step go touch "$DIR/single"
	wait "$BROWSER"
}

# A browser has few connections for all tabs.
test_a_tab_that_is_hidden_gives_its_request_up() {
	browse '
		const page = await browser.open("about:blank");
		await page.before(`Object.defineProperty(document, "hidden", { configurable: true, get: () => window.away ?? false });
			const ask = fetch;
			window.parked = [];
			window.fetch = (url, options) => {
				const poll = String(url).endsWith("/Poll") && JSON.parse(options.body);
				if (!poll?.everyMs) return ask(url, options);
				parked.push(options.signal);
				return ask(url, { ...options, body: JSON.stringify({ ...poll, everyMs: 3600000 }) });
			};`);
		const away = (hidden) => page.eval(`away = ${hidden}; document.dispatchEvent(new Event("visibilitychange"))`);
		await page.show(`${H}/#/queues`);
		await page.until("parked.length === 1");
		await away(true);
		await page.until("parked.length === 1 && parked[0].aborted");
		await away(false);
		await page.until("parked.length === 2 && !parked[1].aborted");
		assert.equal(await page.eval("document.getElementById(`problem`).textContent"), "");
	'
}

# In JSON it is longer than in the contract.
test_a_task_that_is_too_long_for_a_poll_is_shown() {
	N=http://127.0.0.1:$(free_port)
	launch_manager narrow --http "$N" --max-details 100000 --max-result 100000 --max-message 165536
	export REEVE_MANAGER=${URL[manager]}
	wait_until 60 'curl -sf "$N/readyz" >"$DIR/ready"'
	jq -nc '{tasks: [{queue: "long", type: "nothing", details: ("\"" * 95000), runAtUs: ((now + 86400) * 1000000 | floor | tostring)}]}' >"$DIR/long"
	expect_eq 200 "$(call TaskService/Submit "@$DIR/long")"
	id=$(jq -r '.tasks[0].id' "$DIR/answer")
	H=$N browse '
		const page = await browser.open(`${H}/#/tasks/${id}`);
		await page.find("h1 .status", "queued");
	' id="$id"
}

test_a_poll_takes_nothing_but_reads() {
	poll() { # STATUS ANSWER JSON [OPTION…]
		expect_eq "$1" "$(call WebService/Poll "${@:3}")" "$3"
		expect_match "$2" "$(cat "$DIR/answer")"
	}
	id=$(reeve submit nothing --delay 1d --queue single)
	read='{"method": "TaskService/Get", "request": "{\"id\": '$id'}"}'
	poll 200 '^\{"answers":\[\{"answer":"\{\\"task\\":.*,\{"code":"not_found","message":".*"\}\]\}$' '{"reads": ['"$read"', {"method": "TaskService/Get", "request": "{\"id\": 7777777}"}]}'
	poll 400 'is no method that changes nothing' '{"reads": ['"$read"', {"method": "TaskService/Cancel", "request": "{\"ids\": ['"$id"']}"}]}'
	poll 400 'is no method that changes nothing' '{"reads": [{"method": "WebService/Poll", "request": "{}"}]}'
	keys=$(sql 'select count(*) from call_keys') # a caller that may only read stores none
	poll 200 '"answers"' '{"reads": ['"$read"']}' -H 'idempotency-key: poll'
	expect_eq "$keys" "$(sql 'select count(*) from call_keys')"
	poll 400 'reads must be 1 to 32' '{"reads": []}'
	poll 400 'is not a known field' '{"read": []}'
	poll 403 'not listed' '{"reads": ['"$read"']}' -H 'origin: http://evil.example'
	poll 403 'not listed' '{"reads": ['"$read"']}' -H 'sec-fetch-site: cross-site'
	expect_eq 415 "$(page /reeve.v1.WebService/Poll -d "{\"reads\": [$read]}" -H 'content-type: text/plain')"
	expect_eq 405 "$(page '/reeve.v1.WebService/Poll?encoding=json&message=%7B%7D')"
	{ printf '{"reads": [{"method": "'; head -c 9000000 /dev/zero | tr '\0' x; printf '"}]}'; } >"$DIR/long"
	expect_eq 413 "$(page /reeve.v1.WebService/Poll -H 'content-type: application/json' --data-binary "@$DIR/long")"
	expect_eq queued "$(reeve show "$id" --json | jq -r .status)"
	# Each read needs its role; a token that ends takes its polls with it.
	token_manager
	reader=$(reeve token create polls --role reader)
	known "$reader"
	H=$S poll 401 unauthenticated '{"reads": ['"$read"']}'
	H=$S poll 200 '"answer":".*"code":"permission_denied"' '{"reads": ['"$read"', {"method": "TokenService/List", "request": "{}"}]}' -H "authorization: Bearer $reader"
	(H=$S call WebService/Poll '{"everyMs": 3600000, "reads": ['"$read"']}' -H "authorization: Bearer $reader" -m 60 >"$DIR/ended" 2>&1 || echo closed >>"$DIR/ended") &
	waits=$!
	wait_until 60 '[ "$(ss -Htn state established "( sport = :${S##*:} )" | wc -l)" -ge 1 ]'
	sql "update identities set expires = now() where name = 'polls'"
	wait "$waits"
	expect_match '^401|closed' "$(cat "$DIR/ended")" # before it would have been answered that the moment has not come
}

# While nothing of the machine is idle, a page waits for the processor; then its process's own time counts.
# measures time
test_pages_are_small_and_soon_there() {
	fill
	browse '
		const lines = [], { cpus } = await import("node:os");
		const ticks = () => cpus().reduce(([idle, all], { times }) => [idle + times.idle, Object.values(times).reduce((a, b) => a + b, all)], [0, 0]);
		const spent = async (page) => 1000 * (await page.send("Performance.getMetrics")).metrics.find(({ name }) => name === "ProcessTime").value;
		for (const address of pages.split("\n")) {
			const page = await browser.open("about:blank");
			await page.send("Performance.enable");
			await page.send("Network.enable");
			await page.send("Network.setCacheDisabled", { cacheDisabled: true });
			const [idle, all] = ticks(), before = await spent(page);
			await page.show(`${H}/${address}`);
			await page.until(`performance.getEntriesByName("first-contentful-paint").length`);
			const [idleThen, allThen] = ticks(), own = (await spent(page)) - before;
			const bytes = await page.eval(`[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].reduce((sum, e) => sum + e.transferSize, 0)`);
			const paint = await page.eval(`performance.getEntriesByName("first-contentful-paint")[0].startTime`);
			const free = (idleThen - idle) / (allThen - all);
			lines.push(`${address}: ${bytes} bytes, first paint after ${Math.round(paint)} ms, of its own ${Math.round(own)} ms; ${Math.round(100 * free)} % idle`);
			assert.ok(bytes > 10000 && bytes < 204800, lines.at(-1));
			assert.ok((free < 0.1 ? own : paint) < 1000, lines.at(-1));
			await page.close();
		}
		console.log(lines.join("\n"));
	' pages="$PAGES"
}

test_a_build_without_a_registry_warns_and_goes_on() {
	out=$(npm_config_cache="$DIR/cache" npm_config_registry=http://127.0.0.1:1 npm_config_fetch_retries=0 sh "$TOP/web/libraries.sh" npm "$DIR/libraries" 2>&1)
	expect_match 'ECONNREFUSED' "$out"
	expect_match 'warning: the dashboard will draw no charts.* -DREEVE_WEB=OFF' "$(tr '\n' ' ' <<<"$out")"
	expect_match 'there is no npm' "$(sh "$TOP/web/libraries.sh" '' "$DIR/libraries" 2>&1)"
	expect_eq 'export default null;' "$(cat "$DIR/libraries/uplot.js")"
	expect_eq '' "$(grep -l '"resolved"' "$TOP/web/package-lock.json" "$TOP/tests/clients/node/package-lock.json")" 'addresses in lock files'
	cmake -S "$TOP" -B "$DIR/build" -G Ninja -DREEVE_WEB=OFF -DREEVE_NPM= >"$DIR/cmake.log"
	ninja -C "$DIR/build" reeve_web >"$DIR/ninja.log"
	expect_no_match 'path = |"/"' "$(cat "$DIR/build/generated/web/files.h")"
	gcc -fsyntax-only -Werror -I"$TOP" -I"$DIR/build/generated" -I"$(dirname "$REEVE_BIN")/generated" "$TOP/manager/http/http_web.c"
}

run_tests
