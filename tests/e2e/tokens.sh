#!/usr/bin/env bash
# Access tokens and roles: who may call what. (token_lifetimes.sh: from their creation to their end.)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tokens.bash"
. "$(dirname "$0")/locks.bash"

ROLES='reader submitter worker manual_worker metric_writer operator'

# Makes an empty call of each method of the list, and prints its name with the number of the status code.
codes_as() { # TOKEN
	paste -d' ' "$DIR/methods" <(REEVE_ACCESS_TOKEN=$1 "$REEVE_BIN/raw-call" "$TCP" \
		"$(sed 's,^,/reeve.v1.,;s, ,/,' "$DIR/methods" | paste -sd,)" </dev/null | cut -d' ' -f1)
}

test_each_method_refuses_callers_without_one_of_its_roles() {
	local role service method allowed code
	cut -d' ' -f1-2 "$TOP/tests/e2e/data/method_roles" >"$DIR/methods"
	# The list has every method of the contract.
	expect_eq "$(awk '$1 ~ /Service$/ && NF == 4 {print $1, $2}' "$TOP/tests/e2e/data/contract")" "$(cat "$DIR/methods")"
	for role in $ROLES admin; do
		codes_as "$(admin token create "the-$role" --role "$role")" >"$DIR/codes"
		while read -r service method allowed; do
			code=$(sed -n "s/^$service $method //p" "$DIR/codes")
			case " $allowed admin anyone " in
			*" $role "*) expect [ "$code" != 7 ] ;;
			*) expect_eq "$([ "$allowed" = anyone ] && echo 0 || echo 7)" "$code" "$service/$method as $role" ;;
			esac
		done <"$TOP/tests/e2e/data/method_roles"
	done
	expect_eq 'AdminService Ping 0' "$(codes_as '' | grep -v ' 16$')" 'without a token'
	version=$("$REEVE_BIN/reeve-manager" --version | awk '{printf "%s", $2}' | od -An -tx1 | tr -d ' \n')
	expect_no_match "$version" "$("$REEVE_BIN/raw-call" "$TCP" /reeve.v1.AdminService/Ping </dev/null)"
	token=$(admin token create reads --role reader)
	expect_match "$version" "$(with "$token" "$REEVE_BIN/raw-call" "$TCP" /reeve.v1.TaskService/List,/reeve.v1.AdminService/Ping </dev/null)"
	expect_fail 4 with "$token" reeve submit nothing
	expect_match '"reads" may not call /reeve.v1.TaskService/Submit: that takes the role submitter or admin' "$OUTPUT"
	# An operator can see that.
	denied=$(admin stats --json | jq '.counters[] | select(.name == "calls_denied").value')
	expect_fail 4 with "$token" reeve submit nothing
	expect_eq "$((denied + 1))" "$(admin stats --json | jq '.counters[] | select(.name == "calls_denied").value')"
	expect_eq 1 "$(grep -c 'refusing a call (logged at most every 10 min for an identity): "reads" may not call /reeve.v1.TaskService/Submit' "$LOG")"
	for role in $ROLES admin; do admin token revoke "the-$role" >/dev/null; done
}

test_a_submitter_uses_its_queues_and_sees_its_own() {
	local token other id own batch reads
	token=$(admin token create shop --role submitter --queue mail --type echo,nothing --callback-hosts '*.example.org')
	other=$(admin submit nothing --queue mail)
	own=$(with "$token" reeve submit nothing --queue mail)
	expect_eq "$own" "$(with "$token" reeve show "$own" --json | jq .id)"
	with "$token" reeve logs "$own"
	for read in show logs; do
		expect_fail 4 with "$token" reeve "$read" "$other"
		expect_match "there is no task $other" "$OUTPUT"
	done
	for options in '--queue other nothing' 'nothing' '--queue mail sh'; do
		expect_fail 4 with "$token" reeve submit $options
		expect_match '"shop" may not use the (queue|type)' "$OUTPUT"
	done
	# The stages of a pipeline may have other queues.
	echo '{"name": "to-others", "stages": [{"name": "one", "type": "nothing"}, {"name": "two", "type": "nothing", "queue": "secret"}]}' >"$DIR/pipeline"
	admin pipeline define "$DIR/pipeline" >/dev/null
	expect_fail 4 with "$(admin token create pipes --role submitter --queue mail)" reeve submit --queue mail --pipeline to-others --stage two
	expect_match '"pipes" may use no pipelines, as it is limited to some queues or types' "$OUTPUT"
	admin token revoke pipes >/dev/null
	# It does not learn when another's task ends.
	expect_fail 4 with "$token" timeout 20 "$REEVE_BIN/reeve" wait "$other"
	expect_match "there is no task $other" "$OUTPUT"
	batch=$(with "$token" reeve batch open nightly --queue mail --callback https://a.example.org/)
	with "$token" reeve batch report "$batch" >/dev/null
	expect_fail 4 with "$token" reeve batch open nightly --queue mail --callback https://example.com/
	expect_fail 4 with "$token" reeve batch open nightly
	batch=$(admin batch open nightly --queue mail)
	expect_fail 4 with "$token" reeve batch report "$batch"
	expect_match "there is no batch $batch" "$OUTPUT"
	for action in "batch close $batch" "submit nothing --queue mail --batch $batch"; do
		expect_fail 4 with "$token" reeve $action
		expect_match "there is no batch $batch" "$OUTPUT"
	done
	# Who sees all batches may not change them for that.
	reads=$(admin token create web --role reader,submitter)
	with "$reads" reeve batch report "$batch" >/dev/null
	for action in "batch close $batch" "submit nothing --batch $batch"; do
		expect_fail 4 with "$reads" reeve $action
		expect_match "there is no batch $batch" "$OUTPUT"
	done
	with "$reads" reeve submit nothing --batch "$(with "$reads" reeve batch open nightly)" >/dev/null
	admin token revoke web >/dev/null
	admin batch close "$batch" >/dev/null
	closes_no_batch_that_comes_later
	own=$(with "$token" reeve batch open nightly --queue mail)
	with "$token" reeve submit nothing --queue mail --batch "$own" >/dev/null
	with "$token" reeve batch close "$own" >/dev/null
	admin token revoke shop >/dev/null
}

# A batch that another opens when the caller was found to close none of others, and before it is closed.
closes_no_batch_that_comes_later() {
	local next
	next=$(($(with "$token" reeve batch open nightly --queue mail) + 1))
	hold calls 'lock table requests in share mode'
	start closes env REEVE_ACCESS_TOKEN="$token" "$REEVE_BIN/reeve" batch close "$next"
	wait_until 30 '! alive closes || blocked edit'
	sql "insert into batches (id, name, queue, implicit, source) overriding system value values ($next, 'later', 'mail', false, 'other/ann')"
	let_go calls
	ended closes 30
	expect_eq 4 "$STATUS"
	expect_match "there is no batch $next" "$(cat "$DIR/log/closes.log")"
	expect_eq t "$(sql "select closed_at is null from batches where id = $next")"
	sql "delete from batches where id = $next; select nextval('batches_id_seq')" >/dev/null
}

# A key that another identity has used tells and changes nothing.
test_a_submitter_uses_no_keys_of_others() {
	local mine other id batch
	mine=$(admin token create shopa --role submitter --queue mail)
	other=$(admin token create shopb --role submitter --queue mail)
	id=$(with "$mine" reeve submit nothing --queue mail --key order-2 --key-version 1 --delay 1h 'pay 10')
	expect_eq "$id" "$(with "$mine" reeve submit nothing --queue mail --key order-2 --key-version 1 'pay 10' 2>/dev/null)"
	for version in '' '--key-version 1' '--key-version 2'; do
		expect_fail 4 with "$other" reeve submit nothing --queue mail --key order-2 $version 'pay 10000'
		expect_match 'the key "order-2" in the queue "mail" is of another caller.s task' "$OUTPUT"
	done
	# Of a call with several tasks nothing is created; and other calls are served.
	printf '{"type":"nothing","key":"new-%s"}\n' 1 2 | sed '2s/new-2/order-2/' >"$DIR/bulk"
	expect_fail 4 with "$other" reeve submit --queue mail --bulk "$DIR/bulk"
	expect_eq 0 "$(sql "select count(*) from keys where key = 'new-1'")"
	expect_eq 'shopa pay 10' "$(admin show "$id" --json | jq -r '"\(.source | split("/")[0]) \(.details)"')"
	with "$mine" reeve submit nothing --queue mail --key order-2 --key-version 2 'pay 20' >/dev/null 2>&1
	wait_until 20 '[ "$(admin show "$id" --json | jq -r .details)" = "pay 20" ]'
	# Nor when it has ended, or in a batch; but an operator may.
	with "$mine" reeve cancel "$id" >/dev/null 2>&1 || admin cancel "$id" >/dev/null
	expect_fail 4 with "$other" reeve submit nothing --queue mail --key order-2 --key-version 3
	batch=$(with "$other" reeve batch open nightly --queue mail)
	expect_fail 4 with "$other" reeve submit nothing --queue mail --batch "$batch" --key order-2 --key-version 3
	expect_eq "$id" "$(admin submit nothing --queue mail --key order-2 --key-version 3 --delay 1h 2>/dev/null)"
	admin cancel "$id" >/dev/null
	for name in shopa shopb; do admin token revoke $name >/dev/null; done
}

test_a_worker_serves_only_its_queues() {
	local token before after
	token=$(admin token create mails --role worker --queue mail)
	before=$(admin submit echo no --queue default)
	after=$(admin submit echo yes --queue mail)
	export REEVE_ACCESS_TOKEN=$token
	start_worker
	unset REEVE_ACCESS_TOKEN
	expect_eq mail "$(admin worker list --json | jq -r 'select(.name == "worker").queues | join(",")')"
	expect_eq yes "$(admin wait "$after" --json | jq -r .result)"
	expect_eq queued "$(admin show "$before" --json | jq -r .status)"
	# Of a heartbeat's counts the others are left out.
	expect_match '^0 ' "$(worker_call "$TCP" "$token" Heartbeat "\\x08$(varint "$(sql "select max(id) from workers where name = 'worker'")")\\x10\\xff\\xff\\x7f$(
		count secret)$(count mail)")"
	wait_until 20 '[ "$(sql "select queue from worker_counts where batch_id = 77")" ]'
	expect_eq mail "$(sql 'select queue from worker_counts where batch_id = 77')"
	stop worker KILL
	token=$(admin token create pulls --role manual_worker --queue mail)
	admin submit nothing --queue mail --priority 9 >/dev/null
	expect_match '^mail$' "$(with "$token" reeve fetch --json | jq -r .queue)"
	expect_fail 4 with "$token" reeve fetch --queue default
	expect_fail 4 env REEVE_ACCESS_TOKEN="$token" timeout 60 "$REEVE_BIN/reeve-worker" --manager "$TCP" --handlers "$HANDLERS" --name own
	admin token revoke mails >/dev/null
	admin token revoke pulls >/dev/null
}

varint() { # NUMBER
	local n=$1
	for (( ; n > 127; n >>= 7)); do printf '\\x%02x' $((n & 127 | 128)); done
	printf '\\x%02x' "$n"
}

# Makes a call of WorkerService, and prints the number of its status code and the message.
worker_call() { # URL TOKEN METHOD BODY
	printf '%b' "$4" | REEVE_ACCESS_TOKEN=$2 "$REEVE_BIN/raw-call" "$1" "/reeve.v1.WorkerService/$3"
}

count() { # QUEUE: one attempt of its batch 77
	printf '\\x72\\x%02x\\x0a\\x%02x%s\\x10\\x4d\\x18\\x01' $((${#1} + 6)) ${#1} "$1"
}

test_a_worker_serves_only_its_types() {
	local token id
	token=$(admin token create echoes --role worker,manual_worker --type echo)
	export REEVE_ACCESS_TOKEN=$token
	start_worker typed --type echo --queue typed
	expect_fail 4 timeout 60 "$REEVE_BIN/reeve-worker" --manager "$TCP" --handlers "$HANDLERS" --name all
	unset REEVE_ACCESS_TOKEN
	expect_match '"echoes" may not use the type' "$OUTPUT"
	id=$(admin submit nothing --queue typed --priority 9)
	expect_eq yes "$(admin submit echo yes --queue typed --wait)"
	expect_eq queued "$(admin show "$id" --json | jq -r .status)"
	# One that has read its handlers again keeps its lease, and fetches no others.
	expect_match '^0 ' "$(worker_call "$TCP" "$token" Heartbeat \
		"\\x08$(varint "$(sql "select max(id) from workers where name = 'typed'")")\\x10\\xff\\xff\\x7f\\x62\\x04echo\\x62\\x02sh")"
	expect_eq '{echo}' "$(sql "select types from workers where name = 'typed' and gone_at is null")"
	stop typed KILL
	# Nor does a pull client get others.
	for type in nothing echo; do admin submit $type --queue pulled >/dev/null; done
	expect_eq echo "$(with "$token" reeve fetch --queue pulled --json | jq -r .type)"
	expect_fail 4 with "$token" reeve fetch --queue pulled --type nothing
	admin cancel "$id" >/dev/null
	admin token revoke echoes >/dev/null
}

test_a_worker_acts_only_for_what_its_identity_holds() {
	local mine other task id token
	mine=$(admin token create mine --role manual_worker)
	other=$(admin token create other --role manual_worker)
	id=$(admin submit nothing --queue owned)
	token=$(with "$mine" reeve fetch --queue owned --json | jq .token)
	expect_fail 4 with "$other" reeve report "$id" "$token" --completed stolen
	expect_match "task $id is not held by token" "$OUTPUT"
	expect_fail 4 with "$other" reeve extend "$id" "$token" 1h
	expect_match "task $id is not held" "$OUTPUT"
	tell() { # TOKEN REMARK: of four letters
		local attempt
		attempt="\\x08$(varint "$id")\\x10$(varint "$token")\\x22\\x04$2"
		worker_call "$TCP" "$1" Progress "$(printf '\\x0a\\x%02x%s' "$(printf '%b' "$attempt" | wc -c)" "$attempt")"
	}
	expect_match '^0 ' "$(tell "$other" them)"
	expect_eq '' "$(sql "select remark from tasks where id = $id")"
	expect_match '^0 ' "$(tell "$mine" mine)"
	expect_eq mine "$(sql "select remark from tasks where id = $id")"
	expect_eq executing "$(admin show "$id" --json | jq -r .status)"
	with "$mine" reeve extend "$id" "$token" 1h >/dev/null
	with "$mine" reeve report "$id" "$token" --completed own
	with "$mine" reeve report "$id" "$token" --completed own
	expect_eq own "$(admin show "$id" --json | jq -r .result)"
	id=$(admin submit nothing --queue owned)
	token=$(with "$mine" reeve fetch --queue owned --json | jq .token)
	admin report "$id" "$token" --completed 'for another'
	for name in mine other; do admin token revoke "$name" >/dev/null; done
}

# Of a running attempt and of an ended one.
test_the_audit_has_who_reported_for_another() {
	local mine other id token body
	mine=$(admin token create mine --role manual_worker)
	other=$(admin token create other --role manual_worker)
	id=$(admin submit nothing --queue reported)
	token=$(with "$mine" reeve fetch --queue reported --json | jq .token)
	for n in 1 2; do
		expect_fail 4 with "$other" reeve report "$id" "$token" --completed stolen
	done
	expect_eq "result_refused" "$(admin audit "$id" --actor other --json | jq -r .event)"
	expect_match "task $id: a result \(completed\) of an attempt that does not hold it, by other/.*; nothing" "$(cat "$LOG")"
	with "$mine" reeve report "$id" "$token" --completed own
	expect_fail 4 with "$other" reeve report "$id" "$token" --completed stolen
	with "$mine" reeve report "$id" "$token" --completed own
	expect_eq 'claimed completed' "$(admin audit "$id" --actor mine --json | jq -r .event | xargs)"
	expect_eq "1" "$(admin audit "$id" --actor other --json | wc -l)"
	# One that nobody has reported before its end.
	id=$(admin submit nothing --queue reported)
	token=$(with "$mine" reeve fetch --queue reported --json | jq .token)
	with "$mine" reeve report "$id" "$token" --fatal bad
	expect_fail 4 with "$other" reeve report "$id" "$token" --completed stolen
	expect_eq 'submitted claimed dead result_refused' "$(admin audit "$id" --json | jq -r .event | xargs)"
	# An admin may report for others.
	id=$(admin submit nothing --queue reported)
	token=$(with "$mine" reeve fetch --queue reported --json | jq .token)
	admin report "$id" "$token" --failed 'by admin' --retry-in 1ms
	token=$(with "$mine" reeve fetch --queue reported --max-wait 20s --json | jq .token)
	admin report "$id" "$token" --completed 'for another'
	expect_eq 'claimed mine reported admin failed admin claimed mine reported admin completed admin' \
		"$(admin audit "$id" --json | jq -r 'select(.event != "submitted") | .event, if .actor | startswith("mine/") then "mine" else "admin" end' | xargs)"
	expect_eq '4 claimed 1 completed' "$(admin audit --queue reported --actor mine --event claimed,completed --json | jq -r .event | sort | uniq -c | xargs)"
	# Also as the worker itself.
	id=$(admin submit nothing --queue reported)
	token=$(with "$mine" reeve fetch --queue reported --json | jq .token)
	body=$(printf '%s' '\x08' "$(varint "$id")" '\x10' "$(varint "$token")" '\x18\x01')
	expect_match '^0 ' "$(worker_call "$TCP" "$(admin token create boss --role admin)" Report \
		"\\x08$(varint "$(sql "select worker_id from tasks where id = $id")")\\x12$(varint $((${#body} / 4)))$body")"
	expect_eq 'submitted claimed reported completed' "$(admin audit "$id" --json | jq -r .event | xargs)"
	expect_eq 'reported completed' "$(admin audit "$id" --actor boss --json | jq -r .event | xargs)"
	for name in mine other boss; do admin token revoke "$name" >/dev/null; done
}

test_nobody_speaks_for_a_worker_of_another_identity() {
	local mine other incarnation of call code body url
	mine=$(admin token create mine --role worker)
	other=$(admin token create other --role worker)
	PORT[second]=$(free_port)
	start second "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "tcp://127.0.0.1:${PORT[second]}" --auth required
	wait_until 60 'with "$mine" "$REEVE_BIN/raw-call" "tcp://127.0.0.1:${PORT[second]}" /reeve.v1.AdminService/Ping </dev/null'
	export REEVE_ACCESS_TOKEN=$mine
	start_worker
	unset REEVE_ACCESS_TOKEN
	incarnation=$(sql "select max(id) from workers where name = 'worker'")
	of="\\x08$(varint "$incarnation")"
	# One manager knows whose the worker is, as it has registered it; the other one reads it.
	for url in "$TCP" "tcp://127.0.0.1:${PORT[second]}"; do
		while read -r call code body; do
			expect_match "^$code " "$(worker_call "$url" "$other" "$call" "$body")" "$call"
		done <<-END
			Fetch 7 $of\x10\x7f\x18\x01
			Heartbeat 7 $of\x10\xff\xff\x7f
			Report 7 $of\x12\x06\x08\x01\x10\x01\x18\x01
			Leave 7 $of
			Register 6 \x0a\x06worker\x20\x01\x40$(varint "$incarnation")
		END
	done
	# A name that another identity has tells nothing of its worker.
	expect_match '^6 a worker named "worker" of another caller is already running; give each its own name$' \
		"$(worker_call "$TCP" "$other" Register '\x0a\x06worker\x20\x01')"
	expect_match '^6 a worker named "worker" is already running, process [1-9][0-9]* on [^;]+; ' \
		"$(worker_call "$TCP" "$mine" Register '\x0a\x06worker\x20\x01')"
	expect_eq f "$(sql "select lost from workers where id = $incarnation")"
	expect_eq "done" "$(admin submit echo "done" --wait)"
	# What has ended is answered as such.
	stop worker
	expect_match '^0 ' "$(worker_call "$TCP" "$mine" Leave "$of")"
	stop second
	for name in mine other; do admin token revoke "$name" >/dev/null; done
}

test_a_remark_is_stored_only_for_the_workers_own_attempt() {
	local a b first second own token
	token=$(admin token create acts --role admin)
	a=$(admin submit nothing --queue remarked)
	first=$(admin fetch --queue remarked --json | jq .token)
	b=$(admin submit nothing --queue remarked)
	second=$(admin fetch --queue remarked --json | jq .token)
	own=$(sql "select worker_id from tasks where id = $b")
	remark() { # TASK TOKEN: of four letters
		local attempt
		attempt="\\x08$(varint "$1")\\x10$(varint "$2")\\x1a\\x04some"
		printf '\\x5a\\x%02x%s' "$(printf '%b' "$attempt" | wc -c)" "$attempt"
	}
	worker_call "$TCP" "$token" Heartbeat "\\x08$(varint "$own")\\x10\\x01$(remark "$a" "$first")$(remark "$b" "$second")" >/dev/null
	wait_until 10 '[ "$(sql "select remark from tasks where id = $b")" = some ]'
	expect_eq '' "$(sql "select remark from tasks where id = $a")"
	for id in "$a" "$b"; do admin report "$id" "$(sql "select time_us(last_updated) from tasks where id = $id")" --completed; done
	admin token revoke acts >/dev/null
}

# The handler of an attempt has an access token of its own, which ends with the attempt.
test_a_handler_submits_for_its_attempt() {
	local reeve="'$REEVE_BIN/reeve'" id child said
	admin token create handlers --role worker --queue work --output "$DIR/handlers.token"
	start_worker worker --access-token-file "$DIR/handlers.token"
	id=$(admin submit sh "$reeve submit nothing --queue work" --queue work)
	child=$(admin wait "$id" --json | jq -r .result)
	expect_match '^[0-9]+$' "$child"
	expect_eq "$id" "$(admin show "$child" --json | jq .parent_id)"
	expect_match "^parent +$id\$" "$(admin show "$child" | grep parent)"
	expect_eq "$child" "$(admin list --where "parent=$id" --json | jq .id)"
	expect_match '^handlers/' "$(admin show "$child" --json | jq -r .source)"
	expect_eq 0 "$(admin show "$id" --json | jq .parent_id)"
	# The parent stays when the task has ended; other changes find it by that, too.
	wait_until 20 '[ "$(admin show "$child" --json | jq -r .status)" = completed ]'
	expect_eq "$id" "$(admin show "$child" --json | jq .parent_id)"
	admin purge --where "parent=$id status=completed" >/dev/null
	expect_fail 4 admin show "$child"
	said=$(admin submit sh "$reeve submit nothing --queue other 2>&1 || true" --queue work --wait)
	expect_match '"handlers" may not use the queue "other"' "$said"
	said=$(admin submit sh "$reeve queue pause work 2>&1 || true" --queue work --wait)
	expect_match '"handlers" may not call /reeve.v1.QueueService/Control' "$said"
	said=$(admin submit sh 'printf %s "$REEVE_ATTEMPT_ACCESS_TOKEN"' --queue work --wait)
	expect_fail 4 env REEVE_ATTEMPT_ACCESS_TOKEN="$said" "$REEVE_BIN/reeve" submit nothing --queue work
	expect_match 'the attempt of task [0-9]+ has ended, and with it its access token' "$OUTPUT"
	expect_fail 4 env REEVE_ATTEMPT_ACCESS_TOKEN="${said%?}_" "$REEVE_BIN/reeve" submit nothing --queue work
	expect_match 'the access token of the attempt is not valid' "$OUTPUT"
	# It ends with the worker's identity, too.
	id=$(admin submit sh "while sleep 0.1; do $reeve submit nothing --queue work; done >/dev/null 2>'$DIR/refused'" --queue work)
	wait_until 20 '[ "$(admin list --where "parent=$id" --json)" ]'
	admin token revoke handlers
	wait_until 20 'grep -q "access token of the attempt is not valid" "$DIR/refused"'
	stop worker KILL
}

# It reports progress of its own attempt, and of no other.
test_a_handler_reports_progress_of_its_attempt() {
	local id role
	for role in worker admin; do reports_progress "$role"; done
}

reports_progress() { # ROLE of its worker
	admin token create reports --role "$1" --output "$DIR/reports-$1.token"
	start_worker worker --access-token-file "$DIR/reports-$1.token"
	cat >"$DIR/tell" <<-END
		$(declare -f varint)
		attempt="\\x08\$(varint "\$1")\\x10\$(varint "\$2")\\x22\\x04text"
		attempt=\$(printf '\\\\x0a\\\\x%02x%s' "\$(printf '%b' "\$attempt" | wc -c)" "\$attempt")
		printf '%b' "\$attempt\$3" | REEVE_ACCESS_TOKEN=\$REEVE_ATTEMPT_ACCESS_TOKEN "$REEVE_BIN/raw-call" "\$REEVE_MANAGER" /reeve.v1.WorkerService/Progress
	END
	id=$(admin submit sh "bash '$DIR/tell' 1 1; bash '$DIR/tell' \$REEVE_TASK_ID \$REEVE_TOKEN '\\x10\\x07'; bash '$DIR/tell' \$REEVE_TASK_ID \$REEVE_TOKEN; true" --queue work)
	admin wait "$id" >/dev/null
	expect_match '^7 attempts\[0\]: "reports" is no worker, and may report only with the access token of the attempt' "$(admin show "$id" --json | jq -r .result)"
	expect_match 'incarnation: "reports" is no worker, and must leave it' "$(admin show "$id" --json | jq -r .result)"
	expect_eq text "$(admin show "$id" --json | jq -r .remark)"
	admin token revoke reports
	stop worker KILL
}

# Without tokens a handler may do what it likes, and the tasks that it submits have their parent.
test_a_local_handler_submits_for_its_attempt() {
	local reeve="'$REEVE_BIN/reeve'" id child
	start_manager plain
	start_worker local --manager "${URL[plain]}" --queue local
	id=$(admin submit sh "$reeve queue set other --retry-limit 1 >/dev/null && $reeve submit nothing --queue later --key k" --queue local)
	child=$(admin wait "$id" --json | jq -r .result)
	expect_eq "$id" "$(admin show "$child" --json | jq .parent_id)"
	stop local
	stop plain
}

test_a_metric_writer_sets_its_categories() {
	local token
	token=$(admin token create meter --role metric_writer --metric shop)
	with "$token" reeve metric put shop orders 1
	expect_fail 4 with "$token" reeve metric put stock orders 1
	expect_match '"meter" may not use the category "stock"' "$OUTPUT"
	admin token revoke meter >/dev/null
}

# The newest is last, however old its task is.
test_the_audit_is_in_the_order_of_time_and_has_actors() {
	local token id other
	token=$(admin token create shop --role operator)
	id=$(admin submit nothing --queue audited --delay 1h)
	for other in 1 2 3; do admin cancel "$(admin submit nothing --queue audited --delay 1h)" >/dev/null; done
	with "$token" reeve cancel "$id" --reason old >/dev/null
	expect_eq "$id" "$(admin audit --event cancel_requested -n 1 --json | jq .task_id)"
	expect_eq "$id cancel_requested $id cancelled" "$(admin audit --queue audited -n 2 --json | jq -r '.task_id, .event' | xargs)"
	expect_eq "$id cancel_requested $id cancelled" "$(admin audit --queue audited --all --json | tail -n 2 | jq -r '.task_id, .event' | xargs)"
	# By an identity, or by one caller of it.
	expect_eq "$id" "$(admin audit --actor shop --event cancel_requested --json | jq .task_id | tail -n 1)"
	expect_eq 0 "$(admin audit --actor shop --json | jq -r .actor | grep -vc '^shop/')"
	expect_eq cancel_requested "$(admin audit "$id" --actor shop --json | jq -r .event)"
	expect_eq '' "$(admin audit --actor sho)"
	admin token revoke shop
}

run_tests
