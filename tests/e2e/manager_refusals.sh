#!/usr/bin/env bash
# Managers that cannot start or go on: wrong options, a database that is away, full or of another version. Each says
# what is wrong.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/refusals.bash"

start_postgres
start_manager
start_worker

manager_with() { # OPTION…: one that ends by itself
	timeout 30 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "tcp://127.0.0.1:0" "$@"
}

whole_database() { # its schema and its data; \restrict and the like differ each time
	"$REEVE_TEST_PG_BIN/pg_dump" -h "$PGDIR" -U postgres reeve | grep -v '^\\\(un\)\?restrict' | sha256sum
}

test_two_managers_cannot_have_one_port() {
	local code=0
	OUTPUT=$(manager_with --listen "${URL[manager]}" 2>&1) || code=$?
	expect [ $code != 0 ]
	expect [ $code != 124 ] # it has ended by itself
	expect_match "${URL[manager]}: .*in use" "$OUTPUT"
	id=$(reeve submit nothing)
	reeve wait "$id" >/dev/null
}

test_a_manager_with_wrong_options_does_not_start() {
	refused 2 'database is missing' env -u REEVE_DATABASE "$REEVE_BIN/reeve-manager"
	refused 2 '--database: missing "=" after "nonsense"' env -u REEVE_DATABASE "$REEVE_BIN/reeve-manager" --database nonsense
	refused 2 '--database: invalid .*"prot"' env -u REEVE_DATABASE "$REEVE_BIN/reeve-manager" --database 'host=/tmp prot=1'
	refused 2 '--database: invalid .*"port"' env -u REEVE_DATABASE "$REEVE_BIN/reeve-manager" --database 'host=/tmp port=x'
	refused 2 '--database: invalid sslmode .*"on"' env -u REEVE_DATABASE "$REEVE_BIN/reeve-manager" --database 'host=/tmp sslmode=on'
	refused 2 'lease: ' manager_with --lease soon
	refused 2 '--heartbeat .4000 ms. must be at most 2/5 of --lease' manager_with --lease 5s --heartbeat 4s
	refused 2 '--expiry-grace .15000 ms. must be longer than --lease' manager_with --expiry-grace 15s
	refused 2 'max-message must be' manager_with --max-details 8MiB
	refused 2 'nonsense' manager_with --nonsense
	refused 2 'extra' manager_with extra
	refused 2 'loud' manager_with --log-level loud
	refused 2 '--socket-mode takes .* not "0077"' manager_with --socket-mode 0077
	refused 2 '--socket-mode takes .* not "rw"' manager_with --socket-mode rw
	expect_fail 2 manager_with --listen nonsense
	expect_match nonsense "$OUTPUT"
}

own_postgres() { # next to the one that all tests share
	PGDIR='' BORN[postgres]=''
	start_postgres --empty
}

test_a_missing_database_is_reported() {
	own_postgres
	stop_postgres
	expect_fail 3 manager_with
	expect_match "no database: .*$PGDIR" "$OUTPUT"
	CONNINFO="host=127.0.0.1 port=$(free_port) dbname=reeve" expect_fail 3 manager_with
	expect_match 'no database: .*refused' "$OUTPUT"
}

# A waiting command soon prints what is missing.
test_commands_report_that_the_database_is_away() {
	own_postgres
	start_manager mine
	stop_postgres immediate
	start waiting "$REEVE_BIN/reeve" stats
	wait_until 10 'grep -q "^reeve: waiting for a manager that can answer: " "$DIR/log/waiting.log"'
	start_postgres
	ended waiting
	expect_eq 0 "$STATUS"
	expect_eq 1 "$(grep -c 'waiting for a manager' "$DIR/log/waiting.log")"
	stop mine
}

# A busy machine makes a call longer, so the shortest of three calls counts.
# measures time
test_a_call_that_has_not_begun_waits_two_seconds_for_the_database() {
	local call begin took shortest=''
	own_postgres
	start_manager mine
	stop_postgres immediate
	for call in 1 2 3; do
		begin=$(ms)
		OUTPUT=$("$REEVE_BIN/raw-call" "${URL[mine]}" /reeve.v1.AdminService/Stats </dev/null)
		took=$(($(ms) - begin))
		note "$took ms"
		expect_match '^14 no database: ' "$OUTPUT"
		expect [ $took -ge 2000 ]
		[ -n "$shortest" ] && [ "$shortest" -le $took ] || shortest=$took
	done
	expect [ "$shortest" -lt 2500 ]
	start_postgres
	stop mine
}

test_a_command_waits_for_the_database_until_its_timeout() {
	own_postgres
	start_manager mine
	stop_postgres immediate
	begin=$SECONDS
	expect_fail 3 reeve stats --call-timeout 2s
	expect [ $((SECONDS - begin)) -lt 10 ]
	expect_match 'not done in time; the last answer: ' "$OUTPUT"
	expect_fail 2 reeve stats --call-timeout 0s
	expect_match 'call-timeout' "$OUTPUT"
	expect_fail 3 reeve submit nothing --call-timeout 1s # it may have been submitted: nobody can tell
	start_postgres
	wait_until 10 'reeve submit nothing >/dev/null'
	stop mine
}

# PostgreSQL's disk is full: the manager's log and the errors of its callers name that. The trigger raises the error of
# a full disk.
test_a_full_disk_is_named() {
	own_postgres
	start_manager mine
	sql "create function reeve.full_disk() returns trigger language plpgsql as \$\$ begin
			raise exception 'could not extend file \"base/16384/1\": No space left on device' using errcode = 'disk_full';
		end \$\$;
		create trigger full_disk before insert on reeve.tasks for each statement execute function reeve.full_disk()"
	start submitting "$REEVE_BIN/reeve" submit nothing
	full='the database.s disk is full: could not extend file .*: No space left on device'
	wait_until 10 'grep -q "^reeve: waiting for a manager that can answer: $full" "$DIR/log/submitting.log"'
	expect_match "error .*submit: .*$full" "$(cat "$DIR/log/mine.log")"
	sql 'drop trigger full_disk on reeve.tasks' # the disk has space again
	ended submitting
	expect_eq 0 "$STATUS"
	expect_eq 1 "$(grep -c "error .*$full" "$DIR/log/mine.log")" 'it is not told for each try'
	stop mine
}

test_a_schema_that_is_not_right_is_left_alone() {
	own_postgres
	before=$(whole_database)
	expect_fail 4 manager_with --no-migrate
	expect_match 'schema is version 0, this program needs [0-9]+; start once without --no-migrate' "$OUTPUT"
	expect_eq "$before" "$(whole_database)"

	start_manager mine
	stop mine
	newest=$(sql 'select max(version) from schema_migrations')
	sql 'update schema_migrations set version = 8'
	before=$(whole_database)
	expect_fail 4 manager_with --no-migrate
	expect_match "schema is version 8, this program needs $newest; start once without --no-migrate" "$OUTPUT"
	expect_eq "$before" "$(whole_database)"

	sql "update schema_migrations set version = $newest"
	start_manager mine --no-migrate # which is enough for one that is right
	id=$(reeve submit nothing)
	stop mine
	sql "insert into schema_migrations (version, name) values (999, 'of tomorrow')"
	before=$(whole_database)
	for option in '' --no-migrate; do
		expect_fail 4 manager_with $option
		expect_match "schema is version 999, newer than this program's $newest; use a newer reeve-manager" "$OUTPUT"
	done
	expect_eq "$before" "$(whole_database)"
	expect_eq queued "$(sql "select status from tasks where id = $id")"
}

# An older manager would write wrong rows to a schema that a newer one has upgraded.
test_an_older_manager_stops() {
	own_postgres
	start_manager old
	start_manager twin
	id=$(reeve submit nothing)
	newest=$(sql 'select max(version) from schema_migrations')
	sql "insert into schema_migrations (version, name) values (999, 'of tomorrow')"
	for name in old twin; do
		ended $name
		expect_eq 4 "$STATUS" "exit code of $name"
		expect_match "error reeve-manager: stopping: the database's schema is version 999 now, newer than this program's $newest; use a newer reeve-manager" \
			"$(cat "$DIR/log/$name.log")"
	done
	expect_eq queued "$(sql "select status from tasks where id = $id")"
	expect_eq 2 "$(sql 'select count(*) from managers where stopped')" # the others were told
}

test_an_error_names_the_rights_that_a_role_lacks() {
	own_postgres
	sql 'create role poor login'
	before=$(whole_database)
	CONNINFO="host=$PGDIR user=poor dbname=reeve"
	expect_fail 4 manager_with
	expect_match 'role "poor" lacks a right .*GRANT CREATE ON DATABASE "reeve" TO "poor"' "$OUTPUT"
	expect_eq "$before" "$(whole_database)"
	sql "$(grep -o 'GRANT CREATE [^,]*' <<<"$OUTPUT")" # as it was told
	start_manager mine
	reeve submit nothing >/dev/null
	stop mine

	# The schema of another role, without a right in it.
	sql 'create role poorer login'
	CONNINFO="host=$PGDIR user=poorer dbname=reeve"
	expect_fail 4 manager_with
	expect_match 'role "poorer" lacks a right' "$OUTPUT"
	expect_fail 4 manager_with --no-migrate
	expect_match 'role "poorer" lacks a right' "$OUTPUT"
}

run_tests
