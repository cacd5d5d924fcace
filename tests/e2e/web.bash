# shellcheck shell=bash
# For suites about the dashboard: requests of its files, calls, and steps in headless Chromium. $H is the manager's address.

. "$TOP/tests/e2e/npm.bash"

page() { # PATH [OPTION…]: prints a page's HTTP status; the page is in $DIR/answer, its headers in $DIR/headers
	curl -sS -m 20 --path-as-is -o "$DIR/answer" -D "$DIR/headers" -w '%{http_code}' "${@:2}" "$H$1"
}

header() { # NAME: prints the value of a header of the last page
	sed -n "s/^$1: //ip" "$DIR/headers" | tr -d '\r'
}

call() { # SERVICE/METHOD JSON [OPTION…]: prints the HTTP status; the answer is in $DIR/answer
	curl -sS -m 20 -H 'content-type: application/json' -d "$2" -o "$DIR/answer" -w '%{http_code}' "${@:3}" "$H/reeve.v1.$1"
}

drive() { # FILE [ARGUMENT…]: JavaScript that uses tests/tools/browser.mjs
	npm_packages || fail 'npm cannot install what drives the browser'
	TMPDIR=$DIR node "$@"
}

browse() { # STEPS [NAME=VALUE…]: JavaScript with `browser` and `H`, and the texts of the names
	local name value
	{
		echo "import assert from 'node:assert/strict'; import { writeFileSync } from 'node:fs'; import { browse, step } from '$TOP/tests/tools/browser.mjs';"
		for name in "H=$H" "${@:2}"; do
			value=${name#*=}
			echo "const ${name%%=*} = $(jq -Rsc . < <(printf %s "$value"));"
		done
		printf 'await browse(async (browser) => {\n%s\n});\n' "$1"
	} >"$DIR/steps.mjs"
	drive "$DIR/steps.mjs"
}

browse_aside() { # the same in the background: wait "$BROWSER"
	browse "$@" &
	BROWSER=$!
}

at_step() { # STEP COMMAND…: when steps in the background come to `await step(STEP)`, runs the command, and lets them go on
	wait_until 120 "[ -e '$DIR/step.$1' ] || ! kill -0 $BROWSER"
	"${@:2}"
	: >"$DIR/step.$1.done"
}

# JavaScript: `page`, whose charts steps can look into.
PAGE='
	const page = await browser.open("about:blank");
	await page.before("const attach = Element.prototype.attachShadow; Element.prototype.attachShadow = function () { return attach.call(this, { mode: `open` }); };");
	await page.go(H);
'

token_manager() { # starts one whose callers need a token, at $S; `reeve` calls the other one
	S=http://127.0.0.1:$(free_port)
	launch_manager strict --http "$S" --auth required --admin-token-file "$DIR/admin"
	REEVE_MANAGER=${URL[manager]}
	wait_until 60 'curl -sf "$S/readyz" >"$DIR/ready"'
}

known() { # TOKEN: waits until that manager has read it
	wait_until 60 '[ "$(curl -sS -m 20 -o "$DIR/answer" -w "%{http_code}" -H "content-type: application/json" -H "authorization: Bearer '"$1"'" \
		-d "{}" "$S/reeve.v1.AdminService/WhoAmI")" = 200 ]'
}

fill() { # makes some of everything that the pages show, and sets $PAGES to their addresses, a line each
	local ended dead batch
	ended=$(reeve submit sh 'echo "a result"' --queue full --key k-1 --priority 3)
	batch=$(reeve batch open nightly --queue full --callback http://127.0.0.1:1/)
	dead=$(reeve submit sh 'echo broken >&2; exit 65' --queue full --batch "$batch")
	reeve batch close "$batch" >/dev/null
	reeve wait "$ended" >/dev/null
	expect_fail 1 reeve wait "$dead"
	reeve submit unserved --queue full >/dev/null
	reeve submit nothing --queue full --delay 1d >/dev/null
	reeve cancel "$(reeve submit nothing --queue full --delay 1d)" --reason 'not needed' >/dev/null
	reeve submit sh 'exit 1' --queue full --retry-limit 3 --backoff fixed:1d >/dev/null
	reeve schedule add nightly --cron '0 2 * * *' --zone Europe/Berlin echo night --queue full >/dev/null
	reeve schedule add hourly --every 1h nothing --queue full >/dev/null
	reeve schedule run nightly >/dev/null
	reeve pipeline define - <<<'{"name": "way", "stages": [{"name": "first", "type": "echo"}, {"name": "second", "type": "nothing"}]}' >/dev/null
	PAGES=$(printf '#%s\n' / /tasks '/tasks?status=dead&newer=1h&queue=full' '/tasks?newer=x' "/tasks/$ended" "/tasks/$dead" /queues '/queues?name=full' \
		/workers '/workers?name=worker' /batches "/batches?id=$batch" /pipelines '/pipelines?name=way' /schedules '/schedules?name=nightly' \
		/errors '/errors?queue=full&code=exit:65' /callbacks '/callbacks?id=1' /nothing /tasks/999999)
}
