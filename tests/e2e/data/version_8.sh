#!/usr/bin/env bash
# Makes version_8.sql.gz: a dump of a database as the first release left it, its manager and its worker killed in the middle of
# their work. tests/e2e/schema.sh upgrades it.
#
#	tests/e2e/data/version_8.sh PROGRAMS     PROGRAMS: the folder bin of a build of bfffeb7
set -euo pipefail
bin=$1
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
for pg in /usr/lib/postgresql/*/bin; do :; done
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=postgres --regid="$(id -g postgres)" --clear-groups --)
chmod 755 "$dir"
install -d -m 0700 ${as:+-o postgres} "$dir/db"
manager=''

end() {
	trap - EXIT
	[ -z "$manager" ] || kill -KILL "$manager" "$worker" 2>/dev/null || true
	"${as[@]}" "$pg/pg_ctl" -D "$dir/db" -m immediate stop >/dev/null || true
	rm -rf "$dir"
}
trap end EXIT

psql_reeve() {
	"$pg/psql" -XAtq -v ON_ERROR_STOP=1 -h "$dir/db" -U reeve -d reeve -c 'set search_path = reeve' -c "$1"
}

until_true() { # QUERY
	for _ in $(seq 200); do
		[ "$(psql_reeve "select ($1)")" != t ] || return 0
		sleep 0.1
	done
	echo "not within 20 s: $1" >&2
	exit 1
}

reeve() {
	"$bin/reeve" --manager "ipc://$dir/reeve.sock" "$@"
}

(
	cd "$dir/db"
	"${as[@]}" "$pg/initdb" -D . -U postgres -A trust -E UTF8 --locale=C --no-sync >/dev/null
	echo "listen_addresses = ''" >>postgresql.conf
	"${as[@]}" "$pg/pg_ctl" -D . -o "-k $PWD -F" -l log -w start >/dev/null
	"$pg/psql" -Xq -h "$PWD" -U postgres -d postgres -c 'create role reeve login' -c 'create database reeve owner reeve'
)
export REEVE_TEST_DIR=$dir
cat >"$dir/handlers.ini" <<-'END'
	[handler echo]
	exec = /bin/cat
	[handler sh]
	exec = /bin/bash
	[handler a]
	exec = /bin/bash -c "cat; printf a"
END
"$bin/reeve-manager" --database "host=$dir/db user=reeve dbname=reeve" --listen "ipc://$dir/reeve.sock" --lease 2s --heartbeat 500ms --history-days 7 \
	2>"$dir/manager.log" &
manager=$!
"$bin/reeve-worker" --manager "ipc://$dir/reeve.sock" --handlers "$dir/handlers.ini" --name first --queue default --concurrency 4 2>"$dir/worker.log" &
worker=$!
reeve submit echo 'has completed' --key completed --key-ttl 30d --wait >/dev/null # waits for both

# What has ended.
reeve wait "$(reeve submit sh 'echo no >&2; exit 65')" >/dev/null 2>&1 || true
reeve cancel "$(reeve submit echo 'was cancelled' --queue parked)" >/dev/null

# What lives: tried before, executing, due, delayed, with a key and a version, of a paused queue.
reeve submit sh '[ -e "$REEVE_TEST_DIR/go" ] && printf "tried again "' --retry-base 1h --jitter 0 >/dev/null
reeve submit sh 'until [ -e "$REEVE_TEST_DIR/go" ]; do sleep 0.05; done; printf "ran again "' >/dev/null
reeve submit echo due --queue parked --priority 5 >/dev/null
reeve submit echo delayed --queue parked --delay 1h >/dev/null
reeve submit echo 'far off' --queue parked --delay 36500d >/dev/null
reeve submit echo 'version 3' --queue parked --key versioned --version 3 >/dev/null
reeve queue set parked --retry-limit 8 --backoff fixed:7s >/dev/null
reeve queue set halted --retry-limit 1 >/dev/null
reeve queue pause halted >/dev/null
reeve submit echo 'of a paused queue' --queue halted >/dev/null

# A batch whose entry task waits, and one with a callback that nobody takes.
batch=$(reeve batch open nightly --queue parked --entry echo --exit echo)
reeve submit echo 'first of two' --batch "$batch" >/dev/null
reeve submit echo 'second of two' --batch "$batch" >/dev/null
reeve batch close "$batch" >/dev/null
reeve submit echo 'has called' --batch "$(reeve batch open calls --callback http://127.0.0.1:9/)" --wait >/dev/null

# A task in the second stage of a pipeline, whose handler is not there; schedules; metrics.
echo '{"name": "ab", "stages": [{"name": "one", "type": "a"}, {"name": "two", "type": "b"}]}' | reeve pipeline define - >/dev/null
reeve submit --pipeline ab x >/dev/null
reeve schedule add later --every 365d --start "$(date -u -d "3600 days" +%FT00:00:00Z)" echo 'by schedule' >/dev/null
reeve schedule add paused --every 1h echo never >/dev/null
reeve schedule pause paused >/dev/null
reeve schedule run later >/dev/null
reeve metric put shop orders 17

until_true "select count(*) = 1 from tasks where status = 'executing'"
until_true "select count(*) = 1 from tasks where status = 'failed'"
until_true "select count(*) = 1 from tasks where stage = 'two'"
until_true "select count(*) = 5 from task_history"
until_true "select count(*) = 1 from callbacks where state = 'waiting' and attempts > 0 and last_error is not null"
kill -KILL "$manager" "$worker"
wait "$manager" "$worker" 2>/dev/null || true
manager=''
# By an application while no manager is there, of a type that nobody knows; and a result that came late twice.
psql_reeve "select submit('fresh', 'by an application', queue => 'parked')" >/dev/null
psql_reeve "insert into task_events (task_id, version, event)
	select min(task_id), '2001-01-01', 'late_result' from task_history cross join generate_series(1, 2)"
"$pg/pg_dump" --no-owner -h "$dir/db" -U postgres reeve | grep -v '^\\\(un\)*restrict ' | gzip -9n >"$here/version_8.sql.gz"
