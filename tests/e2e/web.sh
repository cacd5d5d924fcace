#!/usr/bin/env bash
# The dashboard: its files, and in headless Chromium its pages.
. "$(dirname "$0")/lib.sh"

start_postgres
PORT_OF_HTTP=$(free_port)
H=http://127.0.0.1:$PORT_OF_HTTP
start_manager manager --http "$H"
start_worker worker --name worker

page() { # PATH [OPTION…]: prints a page's HTTP status; the page is in $DIR/answer, its headers in $DIR/headers
	curl -sS -m 20 --path-as-is -o "$DIR/answer" -D "$DIR/headers" -w '%{http_code}' "${@:2}" "$H$1"
}

header() { # NAME: prints the value of a header of the last page
	sed -n "s/^$1: //ip" "$DIR/headers" | tr -d '\r'
}

call() { # SERVICE/METHOD JSON [OPTION…]: prints the HTTP status; the answer is in $DIR/answer
	curl -sS -m 20 -H 'content-type: application/json' -d "$2" -o "$DIR/answer" -w '%{http_code}' "${@:3}" "$H/reeve.v1.$1"
}

browse() { # STEPS [NAME=VALUE…]: JavaScript with `browser` and `H`, and the texts of the names
	local name value
	{
		echo "import assert from 'node:assert/strict'; import { browse } from '$TOP/tests/tools/browser.mjs';"
		for name in "H=$H" "${@:2}"; do
			value=${name#*=}
			echo "const ${name%%=*} = $(jq -Rsc . < <(printf %s "$value"));"
		done
		printf 'await browse(async (browser) => {\n%s\n});\n' "$1"
	} >"$DIR/steps.mjs"
	node "$DIR/steps.mjs"
}

files() { # prints the paths of all files of the dashboard
	local folder
	page / >/dev/null
	folder=$(grep -o '/web/[0-9a-f]*/' "$DIR/answer" | sort -u)
	(cd "$TOP/web" && printf "$folder%s\n" ./*.js ./*.css ./*.svg) | sed 's,\./,,'
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
	id=$(reeve submit sh 'echo "a result"; echo "<b>x" >&2' --queue mail --key k-1)
	reeve wait "$id" >/dev/null
	dead=$(reeve submit sh 'echo broken >&2; exit 65' --queue mail)
	expect_fail 1 reeve wait "$dead"
	waits=$(reeve submit unserved --queue other)
	browse '
		const page = await browser.open(H);
		await page.send("Emulation.setTimezoneOverride", { timezoneId: "Asia/Kolkata" });
		await page.see("Ended a second");
		await page.see("mail");
		await page.see("tasks have a type that no worker takes: unserved");
		await page.click("a", "Tasks");
		await page.find("a", id);
		await page.find("a", dead);
		await page.click("label", "dead");
		await page.gone("no worker");
		assert.equal(await page.hash(), "#/tasks?status=dead");
		await page.click("a", dead);
		await page.see("broken");
		await page.see("exit:65");
		await page.see("submitted");
		await page.go(`${H}/#/tasks?key=k-1`);
		await page.click("a", id);
		await page.see("a result");
		assert.match(await page.eval(`document.querySelector("time").title`), /:\d\d:\d\d .*GMT\+5:30/, "the time in the zone of the reader");
		await page.go(`${H}/#/tasks/${waits}`);
		await page.see("No living worker takes the type unserved in the queue other.");
		await page.go(`${H}/#/tasks/999999`);
		await page.see("Not found");
		await page.go(`${H}/#/nothing`);
		await page.see("There is no such page");
		await page.go(`${H}/#/tasks?newer=x`);
		await page.see("“x” is not a duration");
	' id="$id" dead="$dead" waits="$waits"
}

test_a_token_signs_in() {
	S=http://127.0.0.1:$(free_port)
	reader=$(reeve token create 'the reader' --role reader)
	launch_manager strict --http "$S" --auth required --admin-token-file "$DIR/admin"
	wait_until 60 'curl -sf "$S/readyz" >"$DIR/ready"'
	browse '
		const page = await browser.open(`${S}/#/tasks?queue=q`);
		await page.see("Access token");
		await page.type("#token", "reeve_1_wrong");
		await page.press("Enter");
		await page.see("the access token is not valid");
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
		await page.type("#token", reader);
		await page.click("button", "Sign in");
		await page.see("the reader reader");
	' S="$S" reader="$reader"
}

run_tests
