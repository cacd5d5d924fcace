#!/usr/bin/env bash
# Reads that take an answer of some age share it: of one caller's equal ones, the database gets one at a time, and one a second.
. "$(dirname "$0")/lib.sh"

start_postgres
H=http://127.0.0.1:$(free_port)
start_manager manager --http "$H"
reeve pipeline define - <<<'{"name": "first", "stages": [{"name": "first", "type": "echo"}]}' >/dev/null

# Statements that read pipelines wait as long as this table has a row.
sql "create table public.gate (closed bool); grant select on public.gate to public"
sql "alter function stages_shown(jsonb) rename to stages_shown_at_once"
# Each of them counts here: there is one pipeline then.
sql "create sequence public.statements; grant usage on sequence public.statements to public"
sql "create function stages_shown(stages jsonb) returns jsonb language plpgsql as \$\$ begin
	perform nextval('public.statements');
	while exists (select from public.gate) loop perform pg_sleep(0.02); end loop; return reeve.stages_shown_at_once(stages); end \$\$"

close_gate() {
	sql 'insert into public.gate values (true)'
}

open_gate() {
	sql 'delete from public.gate'
}

# Each test has a request of its own: there are no answers to it yet.
read_as() { # NAME COUNT REQUEST [OPTION…]: starts readers of the pipelines, as many connections; their statuses are in $DIR/NAME
	local n urls=()
	for ((n = 0; n < $2; n++)); do urls+=("$H/reeve.v1.PipelineService/List" -o "$DIR/$1.$n"); done
	start "$1" sh -c 'out=$1; shift; exec curl "$@" >"$out"' sh "$DIR/$1" -sS -m 60 -Z --parallel-immediate --parallel-max 300 --no-progress-meter \
		-H 'content-type: application/json' -w '%{http_code}\n' -d "$3" "${@:4}" "${urls[@]}"
}

AGED=(-H 'cache-control: max-age=1')

statuses() { # NAME: of readers that have ended
	ended "$1"
	sort "$DIR/$1" | uniq -c | awk '{ print $1 "*" $2 }' | paste -sd' '
}

open_calls() { # as of a second ago; reads of the database could wait for the gate
	curl -sSf -m 20 "$H/metrics" | awk '/^reeve_open_calls / { print $2 }'
}

connections() {
	ss -Htn state established "sport = :${H##*:}" | wc -l
}

running() { # the statements that read pipelines now
	sql "select count(*) from pg_stat_activity where state = 'active' and application_name like 'reeve-manager %' and query like '%stages_shown%'"
}

statements() { # how many have read pipelines
	sql "select coalesce(pg_sequence_last_value('public.statements'), 0)"
}

test_equal_reads_wait_for_one_statement() {
	local token before
	token=$(reeve token create other --role reader)
	before=$(statements)
	close_gate
	read_as all 150 '{}' "${AGED[@]}"
	read_as limited 20 '{"limit": 7}' "${AGED[@]}"                              # another request,
	read_as others 20 '{}' "${AGED[@]}" -H "authorization: Bearer $token"        # another identity,
	read_as own 3 '{}'                                                           # an answer of their own,
	read_as fresh 2 '{}' -H 'cache-control: no-cache, max-age=1'
	wait_until 30 '[ "$(open_calls)" -ge 195 ]'
	expect [ "$(running)" -le 3 ] # the connections for reads
	open_gate
	expect_eq '150*200 20*200 20*200 3*200 2*200' "$(for name in all limited others own fresh; do statuses $name; done | paste -sd' ')"
	expect_eq 1 "$(cat "$DIR"/all.* "$DIR"/own.* | sort -u | wc -l)" 'different answers'
	expect_eq 8 "$(($(statements) - before))"
}

test_an_answer_is_given_again_for_a_second() {
	local before began n=0
	before=$(statements) began=${EPOCHREALTIME/./}
	for round in 1 2 3 4 5; do
		read_as round$round 40 '{}' "${AGED[@]}"
		expect_eq '40*200' "$(statuses round$round)"
	done
	n=$(($(statements) - before))
	[ "$n" -ge 1 ] && [ "$n" -le $(((${EPOCHREALTIME/./} - began) / 1000000 + 1)) ] || fail "$n statements for 200 reads"
	# Who does not take an old answer sees what has just happened.
	for n in 1 2 3; do
		curl -sSf "${AGED[@]}" -H 'content-type: application/json' -d '{}' "$H/reeve.v1.PipelineService/List" >"$DIR/answer"
		reeve pipeline define - <<<"{\"name\": \"p$n\", \"stages\": [{\"name\": \"first\", \"type\": \"echo\"}]}" >/dev/null
		curl -sSf -H 'content-type: application/json' -d '{}' "$H/reeve.v1.PipelineService/List" >"$DIR/answer"
		expect_eq "$((n + 1))" "$(jq '.pipelines | length' "$DIR/answer")"
	done
}

test_the_first_reader_may_leave() {
	close_gate
	read_as first 1 '{"limit": 12}' "${AGED[@]}"
	wait_until 30 '[ "$(running)" = 1 ]'
	read_as rest 10 '{"limit": 12}' "${AGED[@]}"
	read_as soon 1 '{"limit": 12}' "${AGED[@]}" -H 'connect-timeout-ms: 300' # its deadline ends it alone
	expect_eq '1*504' "$(statuses soon)"
	wait_until 30 '[ "$(connections)" = 11 ]'
	kill_reader first
	wait_until 30 '[ "$(connections)" = 10 ]'
	expect_eq 1 "$(running)"
	open_gate
	expect_eq '10*200' "$(statuses rest)"
}

kill_reader() { # NAME
	kill "$(pid "$1")"
	ended "$1" || true
}

test_without_readers_the_statement_ends() {
	close_gate
	read_as first 1 '{"limit": 13}' "${AGED[@]}"
	wait_until 30 '[ "$(running)" = 1 ]'
	read_as rest 10 '{"limit": 13}' "${AGED[@]}"
	wait_until 30 '[ "$(connections)" = 11 ]'
	kill_reader first
	kill_reader rest
	wait_until 30 '[ "$(running)" = 0 ]'
	read_as again 2 '{"limit": 13}' "${AGED[@]}"
	wait_until 30 '[ "$(running)" = 1 ]'
	open_gate
	expect_eq '2*200' "$(statuses again)"
}

# An error is shared, too, and not given again.
test_errors_are_shared_and_forgotten() {
	close_gate
	read_as failing 20 '{"limit": 14}' "${AGED[@]}"
	wait_until 30 '[ "$(open_calls)" -ge 20 ] && [ "$(running)" = 1 ]'
	sql "select pg_cancel_backend(pid) from pg_stat_activity where state = 'active' and application_name like 'reeve-manager %' and query like '%stages_shown%'" >/dev/null
	open_gate
	expect_match '^20\*' "$(statuses failing)"
	read_as later 20 '{"limit": 14}' "${AGED[@]}"
	expect_eq '20*200' "$(statuses later)"
}

test_a_manager_stops_while_readers_share() {
	start_manager stopping --http "${H2:=http://127.0.0.1:$(free_port)}"
	close_gate
	H=$H2 read_as all 20 '{"limit": 15}' "${AGED[@]}"
	wait_until 30 '[ "$(running)" = 1 ]'
	stop stopping
	ended all || true
	open_gate
	REEVE_MANAGER=${URL[manager]}
}

run_tests
