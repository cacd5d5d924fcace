#!/usr/bin/env bash
# The page /metrics: the managers' metrics for Prometheus.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"
. "$(dirname "$0")/locks.bash"

H=http://127.0.0.1:$(free_port)

page() { # [OPTION…]: prints /metrics
	curl -sS -m 20 "$@" "$H/metrics"
}

samples() { # prometheus|openmetrics: of standard input
	"$TOP/tests/tools/metrics_read.py" "$1"
}

value() { # SAMPLE: its value on the page now; NAME and LABEL=VALUE… in order
	page | samples prometheus | awk -v want="$1 " 'index($0, want) == 1 { print substr($0, length(want) + 1) }'
}

OPEN_METRICS='application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'

test_both_formats_are_valid() {
	start_postgres
	start_manager manager --http "$H"
	start_worker
	strange='a "queue" with \ and ü'
	id=$(reeve submit sh 'exit 65' --queue "$strange")
	expect_fail 1 reeve wait "$id"
	reeve submit sh 'exit 3' --max-attempts 2 --retry-base 1h --queue retried >/dev/null
	reeve submit nothing --wait
	reeve submit nothing --delay 1h >/dev/null
	reeve submit unknown --queue lonely >/dev/null
	wait_until 20 '[ "$(value "reeve_retries_total queue=retried type=sh")" = 1 ]'
	# What was read from the database then is newer than all that.
	oldest() { awk '$1 == "reeve_queue_oldest_due_seconds" && $2 == "queue=lonely" { print int($4) }' "$DIR/samples"; }
	wait_until 60 'page -D "$DIR/head" >"$DIR/text" && samples prometheus <"$DIR/text" >"$DIR/samples" && [ "$(oldest)" -ge 4 ]'
	expect_match 'content-type: text/plain; version=0.0.4; charset=utf-8' "$(cat "$DIR/head")"
	promtool check metrics <"$DIR/text" || fail 'promtool finds the page wrong'
	while read -r sample; do
		grep -qxF "$sample" "$DIR/samples" || fail "missing: $sample; there is: $(grep "^${sample%% *} " "$DIR/samples")"
	done <<-END
		reeve_database_up 1
		reeve_queue_tasks queue=default status=delayed type=nothing 1
		reeve_queue_tasks queue=retried status=failed type=sh 1
		reeve_queue_tasks queue=lonely status=queued type=unknown 1
		reeve_unserved_tasks queue=lonely type=unknown 1
		reeve_history_tasks status=completed 1
		reeve_history_tasks status=dead 1
		reeve_dead_tasks_last_hour 1
		reeve_workers mode=running 1
		reeve_workers mode=paused 0
		reeve_schedule_late_seconds 0
		reeve_callbacks_waiting 0
		reeve_tasks_submitted_total queue=$strange type=sh 1
		reeve_attempts_ended_total outcome=completed queue=default type=nothing 1
		reeve_attempts_ended_total outcome=fatal queue=$strange type=sh 1
		reeve_tasks_ended_total queue=$strange status=dead type=sh 1
		reeve_tasks_ended_total queue=default status=completed type=nothing 1
		reeve_claims_total queue=default type=nothing 1
		reeve_task_wait_seconds_count queue=default type=nothing 1
		reeve_attempt_duration_seconds_bucket le=+Inf queue=default type=nothing 1
		reeve_attempt_duration_seconds_bucket le=86400.0 queue=default type=nothing 1
		reeve_managers 1
	END
	expect_match 'reeve_build_info contract=[0-9]+ schema=[0-9]+ version=[0-9.]+ 1' "$(grep build_info "$DIR/samples")"
	expect [ "$(value process_resident_memory_bytes)" -gt 1000000 ]
	expect [ "$(value 'reeve_statement_duration_seconds_count statement=submit_one')" -ge 1 ]
	# OpenMetrics, for those who ask for it: other text, the same samples.
	page -D "$DIR/head" -H "accept: $OPEN_METRICS" >"$DIR/open"
	expect_match 'content-type: application/openmetrics-text; version=1.0.0; charset=utf-8' "$(cat "$DIR/head")"
	expect_eq '# EOF' "$(tail -n 1 "$DIR/open")"
	samples openmetrics <"$DIR/open" | awk '{ print $1 }' | sort -u >"$DIR/names"
	expect_eq "$(awk '{ print $1 }' "$DIR/samples" | sort -u)" "$(cat "$DIR/names")"
	# Other ways to ask for it.
	expect_eq 200 "$(page -o "$DIR/answer" -w '%{http_code}' --http2-prior-knowledge)"
	samples prometheus <"$DIR/answer" >/dev/null
	page --compressed -H 'accept: text/plain' -H 'accept: */*' | samples prometheus >/dev/null
	expect_eq '200 0' "$(page -I -o /dev/null -w '%{http_code} %{size_download}')"
	expect_eq 405 "$(page -d x -o /dev/null -w '%{http_code}')"
	expect_eq 404 "$(curl -sS -o /dev/null -w '%{http_code}' "$H/metricsx")"
	expect_match '^# HELP ' "$(curl -sS "$H/metrics?x=1" | head -n 1)"
	expect_match '"contentType":"text/plain' "$(curl -sS -H 'content-type: application/json' -d '{}' "$H/reeve.v1.AdminService/Scrape")"
}

test_what_runs_waits_and_is_late_is_counted() {
	start_postgres
	start_manager manager --http "$H"
	reeve schedule add late --every 1s nothing >/dev/null
	contended=$(reeve submit nothing --queue contended)
	hold firing "select from schedules where name = 'late' for update"
	hold claiming "select from tasks where id = $contended for update"
	sql "insert into callbacks (batch_id, event, url, payload, next_at) values (1, 'batch_end', 'http://127.0.0.1:9', '{}', now() + interval '1 hour')"
	start_worker worker --concurrency 3
	reeve submit sh 'exec sleep 600' >/dev/null
	at_least() { [ "$(value "$1" | cut -d. -f1)" -ge "$2" ]; }
	wait_until 30 'at_least "reeve_queue_tasks queue=default status=executing type=sh" 1'
	wait_until 30 'at_least reeve_schedule_late_seconds 2'
	wait_until 30 'at_least reeve_claims_lost_total 1'
	expect_eq 3 "$(value reeve_worker_slots)"
	expect_eq 1 "$(value reeve_callbacks_waiting)"
	expect_match '^[0-9.]*[1-9]' "$(value reeve_worker_heartbeat_age_seconds)"
}

test_the_number_of_series_is_bounded() {
	start_postgres
	start_manager manager --http "$H" --metrics-routes 2
	for n in 1 2 3 4; do
		reeve submit "type-$n" >/dev/null
		reeve submit "type-$n" >/dev/null
	done
	reeve submit other --queue other >/dev/null # its numbers are among those of all others
	sum_of() { awk -v f="$1" '$1 == f { n += $NF } END { print n }' "$DIR/samples"; }
	# None comes twice. What the database tells comes some seconds later.
	wait_until 60 'page | samples prometheus >"$DIR/samples" && [ "$(sum_of reeve_unserved_tasks)" = 9 ]'
	expect_eq 'queue=default type=type-1 queue=default type=type-2 queue=other type=other' \
		"$(awk '$1 == "reeve_tasks_submitted_total" { print $2, $3 }' "$DIR/samples" | sort | paste -sd' ')"
	expect_eq 5 "$(awk '$1 == "reeve_tasks_submitted_total" && $2 == "queue=other" { print $4 }' "$DIR/samples")"
	for family in queue_tasks unserved_tasks; do
		expect_eq 3 "$(awk -v f="reeve_$family" '$1 == f { sub(/status=[a-z]+ /, ""); print $2, $3 }' "$DIR/samples" | sort -u | wc -l)" "$family"
		expect_eq 9 "$(sum_of "reeve_$family")" "$family"
	done
	expect_fail 2 "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --metrics-routes 1001
	expect_match 'metrics-routes' "$OUTPUT"
	stop manager
	start_manager manager --http "$H" --metrics-routes 0
	reeve submit type-1 >/dev/null
	expect_eq 1 "$(value 'reeve_tasks_submitted_total queue=other type=other')"
}

test_scrapers_share_what_the_database_answers() {
	start_postgres
	start_manager manager --http "$H"
	local scrapers=()
	for n in {1..40}; do
		page -o /dev/null &
		scrapers+=($!)
	done
	wait "${scrapers[@]}"
	asked=$(value 'reeve_statement_duration_seconds_count statement=fleet')
	spent=$SECONDS
	[ "$asked" -ge 1 ] || fail 'the database was not asked'
	expect [ "$asked" -le $((2 + spent / 5)) ]
}

test_it_needs_the_role_of_a_reader() {
	start_postgres
	launch_manager manager --http "$H" --listen "tcp://127.0.0.1:${PORT[manager]:-$(free_port)},ipc://$DIR/socket" --auth required
	wait_until 60 '"$REEVE_BIN/reeve" --manager "ipc://$DIR/socket" stats >/dev/null 2>&1'
	code() { page -o "$DIR/answer" -w '%{http_code}' "$@"; }
	reader=$(reeve --manager "ipc://$DIR/socket" token create prometheus --role reader)
	other=$(reeve --manager "ipc://$DIR/socket" token create shop --role submitter)
	expect_eq 401 "$(code)"
	expect_eq 401 "$(code -H 'authorization: Bearer nonsense')"
	expect_eq 403 "$(code -H "authorization: Bearer $other")"
	expect_eq 200 "$(code -H "authorization: Bearer $reader")"
	stop manager
	start_manager manager --http "$H"
	expect_eq 200 "$(code)" 'a caller on this machine'
	expect_eq 421 "$(code -H 'host: prometheus.example')" 'a web page of a name that resolves to this machine'
	expect_eq 403 "$(code -H 'origin: https://example.org')"
	stop manager
	launch_manager manager --http "$H" --listen "tcp://127.0.0.1:${PORT[manager]}" --auth required --metrics-open
	wait_until 60 '[ "$(code)" = 200 ]'
	expect_eq 200 "$(code -H 'host: prometheus.example')"
	expect_eq 401 "$(curl -sS -o /dev/null -w '%{http_code}' -H 'content-type: application/json' -d '{}' "$H/reeve.v1.AdminService/Stats")"
}

# Before it waits, the manager looks up whose the tasks are.
test_a_wait_for_ones_own_tasks_counts_once() {
	start_postgres
	start_manager manager --http "$H"
	open() { value 'reeve_call_memory_bytes part=open'; }
	token=$(reeve token create shop --role submitter)
	seq 500 | sed 's/.*/{"type":"none"}/' >"$DIR/bulk"
	REEVE_ACCESS_TOKEN=$token reeve submit --bulk "$DIR/bulk" >"$DIR/ids"
	for header in accept: "authorization: Bearer $token"; do
		jq -sc '{ids: ., waitMs: 60000}' "$DIR/ids" |
			curl -sS -m 60 -o "$DIR/answer" -H 'content-type: application/json' -H "$header" -d @- "$H/reeve.v1.TaskService/Wait" &
		wait_until 20 '[ "$(open)" -gt 100000 ]'
		reeve show "$(head -n 1 "$DIR/ids")" >/dev/null
		expect [ "$(open)" -lt 200000 ]
		kill $!
		wait $! || true
		wait_until 20 '[ "$(open)" -lt 100000 ]'
	done
	stop manager
}

test_a_database_that_does_not_answer_delays_nothing() {
	start_postgres
	start_manager manager --http "$H"
	wait_until 20 '[ "$(value reeve_database_up)" = 1 ]'
	wait_until 20 '[ "$(value "reeve_workers mode=running")" = 0 ]'
	# Frozen: the first scrape waits for it a moment, later ones know.
	signal postgres STOP
	for process in $(pgrep -P "$(pid postgres)"); do kill -STOP "$process" || true; done
	sleep 5.1
	page | samples prometheus >"$DIR/samples"
	wait_until 20 '[ "$(value reeve_database_up)" = 0 ]'
	page | samples prometheus >"$DIR/samples"
	expect_match 'process_start_time_seconds' "$(cat "$DIR/samples")"
	expect_no_match 'reeve_workers ' "$(cat "$DIR/samples")" 'numbers of the database'
	for process in $(pgrep -P "$(pid postgres)"); do kill -CONT "$process"; done
	signal postgres CONT
	wait_until 30 '[ "$(value reeve_database_up)" = 1 ]'
	stop_postgres immediate
	wait_until 30 '[ "$(value reeve_database_up)" = 0 ]'
	start_postgres
	wait_until 60 '[ "$(value "reeve_workers mode=running")" = 0 ]'
}

test_the_rules_for_alerts_and_the_dashboard_fit_the_metrics() {
	local rules="$TOP/deploy/prometheus/alerts.yml" dashboard="$TOP/deploy/prometheus/grafana.json" alert
	promtool check rules "$rules" || fail 'promtool finds the rules wrong'
	(cd "$TOP/deploy/prometheus" && promtool test rules alerts_test.yml) || fail 'a test of the rules fails'
	# Each alert has its section, and a test.
	for alert in $(sed -n 's/^ *- alert: //p' "$rules"); do
		grep -qx "### $alert" "$TOP/docs/monitoring.md" || fail "docs/monitoring.md has no section $alert"
		grep -qF "runbook: docs/monitoring.md#${alert,,}" "$rules" || fail "$alert names no section"
		[ "$(grep -c "alertname: $alert" "$TOP/deploy/prometheus/alerts_test.yml")" -ge 2 ] || fail "$alert has no test"
	done
	# The dashboard's expressions are valid, and all metrics exist.
	jq -r '.panels[].targets[]?.expr' "$dashboard" | sed 's/\[\$__rate_interval\]/[5m]/g; s/\$queue/.*/g' >"$DIR/expressions"
	expect [ "$(wc -l <"$DIR/expressions")" -gt 20 ]
	jq -Rn '{groups: [{name: "d", rules: [inputs | {record: "d", expr: .}]}]}' "$DIR/expressions" >"$DIR/rules.yml"
	promtool check rules "$DIR/rules.yml" || fail 'promtool finds an expression of the dashboard wrong'
	start_postgres
	start_manager manager --http "$H"
	reeve submit nothing >/dev/null
	wait_until 20 '[ "$(value "reeve_unserved_tasks queue=default type=nothing")" = 1 ]'
	page | samples prometheus | awk '{ print $1 }' | sort -u >"$DIR/names"
	cat "$DIR/expressions" "$rules" | grep -oE '\b(reeve|process)_[a-z_]+' | sort -u >"$DIR/used"
	expect_eq '' "$(comm -23 "$DIR/used" "$DIR/names")" 'metrics that do not exist'
	# Each metric on the page is described.
	for name in $(sed 's/_\(bucket\|count\|sum\)$//' "$DIR/names" | sort -u); do
		grep -qF "\`$name\`" "$TOP/docs/metrics.md" || fail "docs/metrics.md lacks $name"
	done
}

run_tests
