#!/usr/bin/env bash
# The pictures of the dashboard in docs/ can be taken. To take new ones:
#
#	REEVE_PICTURES=$PWD/docs/pictures tests/run web_pictures
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/web.bash"

start_postgres -c fsync=on -c idle_in_transaction_session_timeout=10min
sql 'grant pg_read_all_stats to reeve'
H=http://127.0.0.1:$(free_port)
start_manager manager --http "$H"

work() { # tasks of a small shop
	local n
	sql "insert into routes (queue, type) values ('shop', 'order')"
	sql "insert into activity
		select false, date_trunc('minute', now()) - n * interval '1 minute', (select id from routes where queue = 'shop'), s, s, s - f, f, f - f / 3, f / 3, s - f + f / 3,
			array_fill(0, array[6]) || s || array_fill(0, array[14]), s * 4000, array_fill(0, array[11]) || s || array_fill(0, array[9]), s * 90000
		from generate_series(0, 90) n, lateral (select case when n = 0 then extract(second from now()) / 60 else 1 end as part) p,
			lateral (select (part * (900 + 500 * sin(n / 9.0) + 120 * sin(n * 1.7)))::bigint as s, (part * (12 + 11 * sin(n / 5.0)))::bigint as f) x"
	for n in 1 2 3; do reeve submit send '{"to": "ann@example.org", "subject": "Your order"}' --queue mail --key "order-101$n" >/dev/null; done
	for n in 1 2 3 4 5; do reeve submit resize "photo-$n.jpg" --queue images --wait >/dev/null; done
	reeve submit report 'November' --queue reports --delay 5h >/dev/null
	reeve submit import 'orders.csv' --queue shop --retry-limit 1 --backoff fixed:1h >/dev/null
	dead=$(reeve submit import 'orders.csv' --queue shop --retry-limit 0)
	expect_fail 1 reeve wait "$dead"
	reeve schedule add nightly-report --cron '0 2 * * *' --zone Europe/Berlin report nightly --queue reports >/dev/null
	wait_until 60 '[ "$(reeve list --where status=executing --json | jq -s length)" = 3 ]'
	sql "update workers set host = name, pid = 4000 + id"
}

test_pictures_are_small_and_show_charts() {
	local folder=${REEVE_PICTURES:-$DIR/pictures} picture
	mkdir -p "$folder"
	handlers <<-END
		[handler send]
		exec = /bin/sh -c 'exec sleep 3600'
		[handler resize]
		exec = /bin/echo 1200x800
		[handler import]
		exec = /bin/sh -c 'echo no such file: orders.csv >&2; exit 65'
	END
	for picture in app-1 app-2; do start_worker $picture --concurrency 4; done
	work
	browse "$PAGE"'
		const take = async (page, name, address, text, width, height, scroll = "body") => {
			await page.size(width, height);
			await page.show(`${H}/#${address}`);
			await page.see(text);
			await page.until(`[...document.querySelectorAll("live-chart")].every((c) => c.shadowRoot.querySelector("canvas"))`);
			await page.until(`![...document.querySelectorAll(".tile dd")].some((e) => e.innerText === "…")`);
			await page.eval(`document.querySelector("${scroll}").scrollIntoView()`);
			writeFileSync(`${folder}/${name}.png`, await page.picture());
		};
		await page.see("Ended a second");
		await page.until(`/Due: .* at most .* at/.test(document.body.innerText)`);
		await take(page, "overview", "/", "at most", 1100, 980);
		await take(page, "task", `/tasks/${dead}`, "no such file: orders.csv", 1100, 760);
		await page.dark(true);
		await take(page, "tasks-dark", "/tasks?queue=shop", "dead", 1100, 560);
		await take(page, "overview-phone", "/", "at most", 390, 800, ".charts");
	' folder="$folder" dead="$dead"
	for picture in overview task tasks-dark overview-phone; do
		[ "$(stat -c %s "$folder/$picture.png")" -lt 120000 ] || fail "$picture has $(stat -c %s "$folder/$picture.png") bytes"
	done
}

run_tests
