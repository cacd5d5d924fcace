#!/usr/bin/env bash
# The dashboard: its files, and in headless Chromium its pages.
# timeout 900
# parts 3
. "$(dirname "$0")/lib.sh"

. "$TOP/tests/e2e/web.bash"

start_postgres
PORT_OF_HTTP=$(free_port)
H=http://127.0.0.1:$PORT_OF_HTTP
start_manager manager --http "$H"
start_worker worker --name worker

files() { # prints the paths of all files of the dashboard
	local folder
	page / >/dev/null
	folder=$(grep -o '/web/[0-9a-f]*/' "$DIR/answer" | sort -u)
	(cd "$TOP/web" && printf "$folder%s\n" ./*.js ./*.css ./*.svg uplot.js uplot.css) | sed 's,\./,,'
}

test_its_files_have_strict_headers() {
	files >"$DIR/files"
	[ "$(wc -l <"$DIR/files")" -ge 9 ] || fail "few files: $(cat "$DIR/files")"
	while read -r path; do
		expect_eq 200 "$(page "$path")" "$path"
		policy=$(header content-security-policy)
		for part in "default-src 'none'" "script-src 'self'" "style-src 'self'" "frame-ancestors 'none'" "base-uri 'none'" \
			"form-action 'none'" "require-trusted-types-for 'script'"; do
			expect_match "$part" "$policy" "$path"
		done
		expect_no_match 'unsafe|http|\*' "$policy"
		expect_eq nosniff "$(header x-content-type-options)"
		expect_eq no-referrer "$(header referrer-policy)"
		expect_eq DENY "$(header x-frame-options)"
		expect_eq same-origin "$(header cross-origin-opener-policy)"
		expect_eq "$([ "$path" = / ] && echo no-cache || echo 'public, max-age=31536000, immutable')" "$(header cache-control)" "$path"
		cp "$DIR/answer" "$DIR/plain"
		expect_eq 200 "$(page "$path" -H 'accept-encoding: gzip')"
		expect_eq gzip "$(header content-encoding)"
		gunzip <"$DIR/answer" | cmp - "$DIR/plain"
		expect_eq "$(stat -c %s "$DIR/answer")" "$(header content-length)"
		expect_eq '200 0' "$(curl -sS -m 20 -I -o "$DIR/headers" -w '%{http_code} %{size_download}' "$H$path")"
		expect_match "$(stat -c %s "$DIR/plain")" "$(header content-length)" 'of a HEAD'
	done < <(echo / && cat "$DIR/files")
	expect_eq 'text/html; charset=utf-8' "$(page / >/dev/null && header content-type)"
	expect_eq 405 "$(page / -X POST -d x)"
}

test_all_files_together_are_small() {
	local sum=0
	files >"$DIR/files"
	while read -r path; do
		expect_eq 200 "$(page "$path" -H 'accept-encoding: gzip')"
		sum=$((sum + $(header content-length)))
	done < <(echo / && cat "$DIR/files")
	[ "$sum" -lt 204800 ] || fail "$sum bytes"
}

test_no_path_leads_to_other_files() {
	page / >/dev/null
	folder=$(grep -o '/web/[0-9a-f]*/' "$DIR/answer" | head -1)
	for path in /web /web/ "$folder" "${folder}index.html" "${folder}../../etc/passwd" "${folder}..%2f..%2fetc/passwd" "${folder}app.js/" \
		"${folder}app.js%00" "//etc/passwd" "/../etc/passwd" "/%2e%2e/etc/passwd" "/..\\etc\\passwd" "/web/app.js" "${folder}embed.sh" \
		/web/0000000000000000/app.js "${folder}./app.js" "${folder/web/WEB}app.js"; do
		expect_eq 404 "$(page "$path")" "$path"
		expect_match not_found "$(jq -r .code "$DIR/answer")" "$path"
	done
	expect_eq 200 "$(page "${folder}app.js?x=1")"
}

# The dashboard's own origin may call; another one may not, nor may a name that leads here without a token.
test_other_pages_cannot_act() {
	id=$(reeve submit nothing --delay 1h)
	body="{\"ids\":[\"$id\"]}"
	for origin in https://evil.example "http://127.0.0.1:$((PORT_OF_HTTP - 1))" "http://127.0.0.1:$PORT_OF_HTTP.evil.example" \
		"http://evil.example/127.0.0.1:$PORT_OF_HTTP" null ://; do
		expect_eq 403 "$(call TaskService/Cancel "$body" -H "origin: $origin")" "$origin"
	done
	expect_eq 403 "$(call TaskService/Cancel "$body" -H 'origin;')" 'an empty origin'
	expect_eq 421 "$(call TaskService/Cancel "$body" -H "host: evil.example:$PORT_OF_HTTP" -H "origin: http://evil.example:$PORT_OF_HTTP")"
	for token in 'Bearer ' 'Bearer   ' Bearer 'Bearer x' 'Basic x'; do
		expect_eq 401 "$(call TaskService/Cancel "$body" -H "host: evil.example:$PORT_OF_HTTP" -H "origin: http://evil.example:$PORT_OF_HTTP" \
			-H "authorization: $token")" "$token"
	done
	expect_eq 415 "$(page /reeve.v1.TaskService/Cancel -d "$body" -H "origin: $H" -H 'content-type: text/plain')" 'what a form can send'
	expect_eq queued "$(reeve show "$id" --json | jq -r .status)"
	expect_eq 200 "$(call TaskService/Cancel "$body" -H "origin: $H")"
	expect_eq cancelled "$(reeve show "$id" --json | jq -r .status)"
}

test_whoami_shows_the_caller() {
	expect_eq '{"name":"","roles":["admin"]}' "$(reeve whoami --json | jq -c '{name, roles}')"
	token=$(reeve token create "sees all" --role reader,metric_writer)
	expect_eq '{"name":"sees all","roles":["reader","metric_writer"]}' \
		"$(REEVE_ACCESS_TOKEN=$token "$REEVE_BIN/reeve" whoami --json | jq -c '{name, roles}')"
	expect_match 'identity +sees all' "$(REEVE_ACCESS_TOKEN=$token "$REEVE_BIN/reeve" whoami)"
	expect_match 'none: a caller on the manager' "$(reeve whoami)"
}

# ---- in a browser ----

test_its_pages_show_tasks() {
	id=$(reeve submit sh 'echo "LOG | opened <b>" >&3; echo "PROGRESS | 55" >&3; echo "a result"; echo "<b>x" >&2' --queue mail --key k-1)
	reeve wait "$id" >/dev/null
	dead=$(reeve submit sh 'echo bro""ken >&2; exit 65' --queue mail)
	expect_fail 1 reeve wait "$dead"
	waits=$(reeve submit unserved --queue other '{"n":1.0, "big":12345678901234567890,"far":1e400,"none":{ },"s":"{\"x\": [1,2]}"}')
	deep=$(reeve submit unserved --queue other "$(printf '[%.0s' {1..5000})$(printf ']%.0s' {1..5000})")
	parent=$(reeve submit sh "'$REEVE_BIN/reeve' submit sh \"until [ -e '$DIR/grown' ]; do sleep 0.1; done\"")
	reeve wait "$parent" >/dev/null
	child=$(reeve show "$parent" --json | jq -r .result)
	browse '
		const page = await browser.open("about:blank");
		await page.send("Emulation.setTimezoneOverride", { timezoneId: "Asia/Kolkata" });
		await page.go(H);
		await page.see("Ended a second");
		await page.see("mail");
		await page.see("a type that no worker takes: unserved");
		await page.click("a", "Tasks");
		await page.find("a", id);
		await page.find("a", dead);
		await page.click("label", "dead");
		await page.gone("no worker");
		assert.equal(await page.hash(), "#/tasks?status=dead");
		await page.click("a", dead);
		await page.find("p.error", "broken");
		await page.find("pre[aria-label=\"Stack trace\"]", "broken");
		await page.find("dd", "exit:65");
		for (const event of ["submitted", "claimed", "dead"]) await page.find("td .event", event);
		await page.go(`${H}/#/tasks?key=k-1`);
		await page.click("a", id);
		await page.find("pre[aria-label=Result]", "a result");
		await page.find("pre[aria-label=Details]", "echo \"LOG | opened <b>\" >&3; echo \"PROGRESS | 55\" >&3; echo \"a result\"; echo \"<b>x\" >&2");
		await page.find("td", "opened <b>");
		await page.see("55 %");
		assert.match(await page.eval(`document.querySelector("time").title`), /:\d\d:\d\d .*GMT\+5:30/, "the time in the zone of the reader");
		await page.go(`${H}/#/tasks/${waits}`);
		await page.see("No living worker takes the type unserved in the queue other.");
		// JSON is indented, and each value stays as it is.
		await page.find("pre[aria-label=Details]", `{\n  "n": 1.0,\n  "big": 12345678901234567890,\n  "far": 1e400,\n  "none": {},\n  "s": "{\\"x\\": [1,2]}"\n}`);
		await page.show(`${H}/#/tasks/${deep}`);
		await page.find("pre[aria-label=Details]", "[".repeat(5000) + "]".repeat(5000));
		await page.go(`${H}/#/tasks/${parent}`);
		await page.see("Tasks that it submitted");
		// It has ended. What it submitted goes on.
		const old = await browser.open("about:blank");
		await old.hurry(10);
		await old.show(`${H}/#/tasks/${parent}`);
		await old.find("td .status", "executing");
		writeFileSync(grown, "");
		await old.find("td .status", "completed");
		await page.click("td a", child);
		await page.find("h1", `Task ${child} completed`);
		await page.click("dd a", parent);
		await page.find("h1", `Task ${parent} completed`);
		await page.go(`${H}/#/tasks/999999`);
		await page.see("Not found");
		assert.equal(await page.eval("document.title"), "Not found · Reeve");
		await page.go(`${H}/#/nothing`);
		await page.see("There is no such page");
		await page.go(`${H}/#/tasks?newer=x`);
		await page.see("“x” is not a duration");
	' id="$id" dead="$dead" waits="$waits" deep="$deep" parent="$parent" child="$child" grown="$DIR/grown"
}

# Each filter is in the form and in the address, and shows what matches; pages of a list have addresses, too.
test_filters_and_pages_of_tasks_are_in_the_address() {
	batch=$(reeve batch open some --queue filtered)
	a=$(reeve submit of-a --queue filtered --key a-key --source ann --batch "$batch")
	b=$(reeve submit sh 'echo "no such file: b" >&2; exit 66' --queue filtered --retry-limit 0)
	expect_fail 1 reeve wait "$b"
	c=$(reeve submit sh "'$REEVE_BIN/reeve' submit of-child --queue filtered; exec sleep 600" --queue filtered --timeout 1h)
	reeve pipeline define - <<<'{"name": "filtered", "stages": [{"name": "one", "type": "of-stage", "queue": "filtered"}]}' >/dev/null
	d=$(reeve submit --pipeline filtered x)
	wait_until 60 '[ "$(reeve list --queue filtered --json | jq -s length)" = 5 ]'
	child=$(reeve list --where "parent=$c" --json | jq -r .id)
	seq -f '{"type":"of-pages","queue":"pages","details":"%.0f"}' 60 | reeve submit --bulk - >/dev/null
	e=$(reeve submit by-hand --queue lines --retry-limit 0)
	reeve report "$e" "$(reeve fetch --queue lines --json | jq .token)" --failed $'two\nlines'
	browse '
		const page = await browser.open(H);
		const ids = () => page.eval("[...document.querySelectorAll(`tbody td:first-child a`)].map((e) => e.innerText).join()");
		const filters = { type: ["of-a", [a]], key: ["a-key", [a]], code: ["exit:66", [b]], contains: ["file: b", [b]], error: ["no such file: b", [b]], batch: [batch, [a]],
			parent: [c, [child]], pipeline: ["filtered", [d]], stage: ["one", [d]], source: ["ann", [a]], newer: ["1h", [a, b, c, d, child]], older: ["1h", []], running: ["1ms", [c]] };
		for (const [name, [value, found]] of Object.entries(filters)) {
			await page.show(`${H}/#/tasks?queue=filtered`);
			await page.eval("document.querySelector(`details`).open = true");
			assert.ok(await page.eval("document.querySelector(`.more`).clientHeight < 300"), "side by side");
			await page.type(`#filter-${name}`, value);
			await page.press("Enter");
			const hash = `#/tasks?${new URLSearchParams({ queue: "filtered", [name]: value })}`;
			await page.until(`location.hash === ${JSON.stringify(hash)} && document.getElementById("main").dataset.shown === location.hash`, hash);
			assert.deepEqual((await ids()).split(",").filter(Boolean).sort(), found.sort(), name);
			assert.equal(await page.eval(`document.getElementById("filter-${name}").value`), value);
		}
		assert.deepEqual((await page.eval("[...document.querySelectorAll(`form.filters input:not([type=checkbox])`)].map((e) => e.name).join()")).split(",").sort(),
			["queue", ...Object.keys(filters)].sort(), "all filters");
		for (const [status, found] of [["dead", [b]], ["executing", [c]]]) {
			await page.show(`${H}/#/tasks?queue=filtered`);
			await page.click("label", status);
			await page.until(`location.hash === "#/tasks?status=${status}&queue=filtered" && document.getElementById("main").dataset.shown === location.hash`);
			assert.equal(await ids(), found.join());
		}
		// An input has one line. What was not edited stays as it is.
		const shown = (hash) => page.until(`location.hash === "#/tasks?${hash}" && document.getElementById("main").dataset.shown === location.hash`, hash);
		await page.show(`${H}/#/tasks?error=two%0Alines`);
		await page.click("label", "dead");
		await shown("status=dead&error=two%0Alines");
		assert.equal(await ids(), e);
		await page.type("#filter-queue", " lines ");
		await page.press("Enter");
		await shown("status=dead&queue=lines&error=two%0Alines");
		assert.equal(await ids(), e);
		await page.type("#filter-error", "two");
		await page.press("Enter");
		await shown("status=dead&queue=lines&error=two");
		await page.type("#filter-error", "");
		await page.press("Enter");
		await shown("status=dead&queue=lines");
		await page.show(`${H}/#/tasks?queue=pages`);
		const first = (await ids()).split(",");
		assert.equal(first.length, 50);
		await page.eval(`${await page.find("a", "Older")}.focus()`); // which scrolls down
		assert.ok(await page.eval("scrollY > 0"));
		await page.press("Enter");
		await page.until("document.querySelectorAll(`tbody tr`).length === 10");
		assert.deepEqual(await page.eval("[scrollY, document.activeElement.localName]"), [0, "h1"], "another page begins at its top");
		assert.equal(await page.hash(), `#/tasks?queue=pages&before=${first.at(-1)}`);
		assert.ok((await ids()).split(",").every((id) => Number(id) < Number(first.at(-1))));
		await page.click("a", "Newest");
		await page.until("document.querySelectorAll(`tbody tr`).length === 50");
		assert.equal(await ids(), first.join());
		await page.show(`${H}/#/tasks/${c}`); // what it submitted is not among the newest 50 tasks
		await page.find("td a", child);
	' a="$a" b="$b" c="$c" d="$d" e="$e" child="$child" batch="$batch"
	reeve cancel "$c" >/dev/null
}

test_a_token_signs_in() {
	token_manager
	reader=$(reeve token create 'the reader' --role reader)
	submitter=$(reeve token create 'only submits' --role submitter)
	known "$reader"
	known "$submitter"
	for path in / /healthz /readyz; do expect_eq 200 "$(H=$S page $path)" "$path"; done
	expect_eq '401 401' "$(H=$S page /metrics) $(H=$S call AdminService/Stats '{}')"
	browse '
		const page = await browser.open(`${S}/#/tasks?queue=q`);
		await page.see("Access token");
		await page.type("#token", "reeve_1_wrong");
		await page.press("Enter");
		await page.see("the access token is not valid");
		await page.type("#token", submitter);
		await page.press("Enter");
		await page.find("h1", "Not allowed");
		await page.see("reader");
		assert.equal(await page.eval("document.title"), "Not allowed · Reeve");
		await page.click("button", "Sign out");
		await page.type("#token", reader);
		await page.click("button", "Sign in");
		await page.see("the reader reader");
		assert.equal(await page.hash(), "#/tasks?queue=q");
		assert.equal(await page.eval("document.cookie + localStorage.length"), "0");
		const other = await browser.open(S); // a tab of the same browser
		await other.see("the reader");
		await other.click("button", "Sign out");
		await other.see("Access token");
		await page.see("Access token");
		assert.equal(await page.eval("sessionStorage.length"), 0);
		const named = await browser.open(S.replace("127.0.0.1", "reeve.localhost"));
		await named.see("Access token");
		assert.equal(await named.eval("document.querySelector(`form [role=alert]`)"), null, "nothing was wrong");
		await named.type("#token", reader);
		await named.press("Enter");
		await named.see("the reader reader");
		for (const text of ["reeve_1_wrong\u200b", "x".repeat(20000)]) { // no header can have it
			await page.type("#token", text);
			await page.press("Enter");
			await page.see("This is no access token.");
			await page.until("!document.getElementById(`token`).value");
			assert.equal(await page.eval("sessionStorage.length"), 0);
		}
		await page.type("#token", reader);
		await page.click("button", "Sign in");
		await page.see("the reader reader");
	' S="$S" reader="$reader" submitter="$submitter"
}

test_a_code_signs_in_once() {
	token_manager
	code=$(reeve token create browser-1 --role admin --expires 1h)
	known "$code"
	browse '
		const page = await browser.open(`${S}/#code=${code}`);
		await page.see("browser-1 admin");
		assert.equal(await page.hash(), "#/");
		await page.eval("location.reload()");
		await page.see("browser-1 admin");
		const end = Date.now() + 60000; // managers read changes of tokens within a second
		while ((await fetch(`${S}/reeve.v1.AdminService/WhoAmI`, { method: "POST", body: "{}",
			headers: { "content-type": "application/json", authorization: `Bearer ${code}` } })).status !== 401)
			assert.ok(Date.now() < end, "the code is still valid");
		const other = await browser.open(`${S}/#code=${code}`); // the same browser is signed in already
		await other.see("browser-1 admin");
		await page.go(`${S}/#code=${code}`);
		await page.until("location.hash === `#/`");
		await page.see("browser-1 admin");
		await other.click("button", "Sign out");
		await page.see("Access token");
		await page.go(`${S}/#code=${code}`);
		await page.see("This code has been used or has expired.");
		const kept = await page.eval(`sessionStorage.getItem("reeve-token") ?? ""`);
		assert.ok(!kept.includes(code));
	' S="$S" code="$code"
	expect_eq browser-1 "$(reeve audit --event token_rotated --json | jq -r .actor | cut -d/ -f1)"
}

test_batches_pipelines_errors_and_callbacks_are_shown() {
	batch=$(reeve batch open nightly --queue of-batch --callback http://127.0.0.1:1/)
	one=$(reeve submit echo one --queue of-batch --batch "$batch")
	two=$(reeve submit sh 'echo "no such thing" >&2; exit 65' --queue of-batch --batch "$batch")
	reeve batch close "$batch" >/dev/null
	expect_fail 1 reeve wait "$one" "$two"
	reeve pipeline define - <<<'{"name": "way", "stages": [{"name": "first", "type": "echo"}, {"name": "second", "type": "nothing"}]}' >/dev/null
	browse '
		const page = await browser.open(`${H}/#/batches`);
		await page.click("a", batch);
		await page.see("nightly");
		await page.find("a", one);
		await page.see("http://127.0.0.1:1/");
		await page.click("a", "failed");
		await page.see("no such thing");
		await page.until(`![...document.querySelectorAll("main a")].some((a) => a.hash === "#/tasks/${one}")`);
		await page.go(`${H}/#/errors?queue=of-batch`);
		await page.find("td", "exit:65");
		await page.find("td a", two);
		for (const choice of ["hour", "code", "text"]) {
			await page.click("a", choice);
			await page.find("a[aria-current]", choice);
		}
		await page.click("td a", "no such thing");
		await page.find("main p.error", "no such thing");
		await page.find("td a", two);
		await page.find("dd", "1");
		assert.equal(await page.hash(), "#/errors?queue=of-batch&error=no+such+thing&since=1h");
		await page.show(`${H}/#/errors?queue=of-batch&code=exit:65`);
		await page.find("h1", "Error exit:65");
		await page.find("td a", two);
		await page.click("dl a", "1"); // one is dead
		await page.until(`location.hash === "#/tasks?queue=of-batch&code=exit%3A65&status=dead"`);
		await page.go(`${H}/#/pipelines`);
		await page.see("first → second");
		await page.click("a", "way");
		await page.see("Its tasks");
		await page.find("td", "nothing");
		await page.go(`${H}/#/callbacks`);
		await page.see("batch begin");
		await page.click("a", "given up");
		await page.until("location.hash === `#/callbacks?state=given_up`");
		await page.see("There is no callback.");
		await page.click("a", "waiting");
		await page.click("td:first-child a", callback);
		await page.find("h1", `Callback ${callback} waiting`);
		await page.find("dd", "batch begin");
		await page.find("dd", "http://127.0.0.1:1/");
		await page.click("dd a", batch);
		await page.find("h1", `Batch ${batch} ended`);
		// Searches that have not come to all tasks and attempts say so.
		const far = await browser.open("about:blank");
		await far.answer("TaskService/List", { nextBeforeId: "7" });
		await far.answer("TaskService/Errors", { nextPage: "1|1" });
		await far.show(`${H}/#/tasks/${one}`);
		await far.see("None is among the newest tasks.");
		await far.show(`${H}/#/errors?code=exit:65`);
		await far.see("None of the latest attempts has failed with it in the last day.");
		await far.see("Older attempts were not counted.");
	' batch="$batch" one="$one" two="$two" callback="$(sql "select id from callbacks where batch_id = $batch and event = 'batch_begin'")"
}

# What someone wrote into the address is refused in a sentence, and the page goes on.
test_bad_addresses_are_refused() {
	browse '
		const page = await browser.open(H);
		const long = "x".repeat(5000);
		for (const [address, text] of [["/tasks?batch=99999999999999999999", "“99999999999999999999” is not a number"], ["/tasks?before=-1", "“-1” is not a number"],
			["/tasks?newer=999999999d", /newer/], [`/tasks?queue=${long}`, /queue/], ["/tasks?status=none", "there is no status “none”"], ["/tasks?queue=%E0%A4%A&x=%", "No task matches."],
			["/tasks/9999999999999999999", /id/], ["/tasks/0", /id/], ["/tasks/1x", "There is no such page"], ["/queues/../tasks", "There is no such page"],
			["/batches?id=x", /id/], ["/batches?id=-1", /id/], ["/batches?before=x", /before/], ["/callbacks?before=x", /before/], ["/callbacks?id=x", "“x” is not a number"], ["/callbacks?id=999999999999999999", "Not found"], [`/queues?name=${long}`, /queue/],
			["/schedules?name=%00", /name/], ["/pipelines?after=%0a", /name/], ["/errors?since=never&by=x", "Errors"], ["//", "There is no such page"]]) {
			await page.show(`${H}/#${address}`);
			if (text instanceof RegExp) assert.match(await page.eval("document.getElementById(`problem`).innerText"), text, address);
			else await page.see(text);
		}
		await page.show(`${H}/#/`);
		await page.see("Overview");
		await page.go(`${H}/#code=%`);
		await page.until("location.hash === `#/`");
		await page.see("Overview");
	'
}

# Texts of callers stay texts, wherever they are shown.
test_texts_of_tasks_run_no_script() {
	local bad='<img src=x onerror="window.hacked=1"><script>window.hacked=1</script><svg onload=window.hacked=1>'
	id=$(reeve submit sh "printf 'LOG | logged %s\n' '$bad' >&3; printf '%s' '$bad'" --queue "$bad" --key "$bad" --source "$bad")
	reeve wait "$id" >/dev/null
	all=$(jq -cn --arg bad "$bad" '{directive: "NO_RETRY", error: $bad, error_code: $bad, stack_trace: $bad, remark: $bad}')
	worst=$(reeve submit sh "printf '%s' '$all' >&3" --queue "$bad")
	expect_fail 1 reeve wait "$worst"
	reeve schedule add "$bad" --every 1d --queue "$bad" "$bad" >/dev/null
	batch=$(reeve batch open "$bad" --queue "$bad" --callback 'http://127.0.0.1:1/?javascript:alert(1)')
	reeve submit nothing --queue "$bad" --delay 1h --batch "$batch" >/dev/null
	reeve cancel "$(reeve submit "$bad" --delay 1h)" --reason "$bad" >/dev/null
	browse '
		const page = await browser.open(H);
		const name = encodeURIComponent(bad);
		for (const address of ["/", "/tasks", `/tasks/${id}`, `/tasks/${worst}`, "/queues", `/queues?name=${name}`, `/tasks?queue=${name}`, "/workers",
			"/schedules", `/schedules?name=${name}`, "/batches", `/batches?id=${batch}`, "/errors", "/errors?by=code", `/errors?code=${name}`, `/errors?error=${name}`, "/callbacks", `/workers?name=${name}`,
			`/${name}`, `/pipelines?name=${name}`]) {
			await page.show(`${H}/#${address}`);
			assert.equal(await page.eval(`document.querySelectorAll("main img, main script, main svg").length`), 0, address);
			assert.equal(await page.eval("typeof window.hacked"), "undefined", address);
		}
		await page.go(`${H}/#/tasks/${id}`);
		await page.find("pre[aria-label=Result]", bad);
		await page.find("td", `logged ${bad}`);
		await page.show(`${H}/#/tasks/${worst}`);
		await page.find("pre[aria-label=\"Stack trace\"]", bad);
		for (const name of ["Error code", "Remark"]) await page.until(`[...document.querySelectorAll("dl > div")].some((e) => e.innerText.includes(${JSON.stringify(name)}) && e.innerText.includes(${JSON.stringify(bad)}))`, name);
		assert.ok(await page.eval(`[...document.querySelectorAll("a")].every((a) => a.getAttribute("href").startsWith("#/"))`));
	' id="$id" worst="$worst" bad="$bad" batch="$batch"
}

# A page of another origin, in a real browser: it can neither act nor show the dashboard in a frame.
test_a_page_elsewhere_can_neither_act_nor_frame_it() {
	id=$(reeve submit nothing --delay 1h)
	mkdir "$DIR/site"
	cat >"$DIR/site/index.html" <<-END
		<iframe src="$H/"></iframe><form method="post" enctype="text/plain" action="$H/reeve.v1.TaskService/Cancel" target="to">
		<input name='{"ids":["$id"],"reason":"' value='"}'></form><iframe name="to"></iframe>
	END
	other=$(free_port)
	start site python3 -m http.server --bind 127.0.0.1 --directory "$DIR/site" "$other"
	wait_until 20 'curl -sf "http://127.0.0.1:$other/" >"$DIR/answer"'
	browse '
		const page = await browser.open(`http://127.0.0.1:${other}/`);
		await page.until("document.readyState === `complete`");
		await page.eval("document.forms[0].submit()");
		const sent = await page.eval(`fetch("${H}/reeve.v1.TaskService/Cancel", { method: "POST", mode: "no-cors", body: JSON.stringify({ ids: ["${id}"] }) })
			.then((r) => r.type, String)`);
		assert.equal(sent, "opaque");
		const asked = await page.eval(`fetch("${H}/reeve.v1.TaskService/Cancel", { method: "POST", headers: { "content-type": "application/json" },
			body: JSON.stringify({ ids: ["${id}"] }) }).then((r) => r.status, String)`);
		assert.match(asked, /TypeError/);
		await page.problem(/frame-ancestors/);
	' other="$other" id="$id"
	expect_eq queued "$(reeve show "$id" --json | jq -r .status)"
}

run_tests
