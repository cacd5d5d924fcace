#!/usr/bin/env bash
# Access tokens and roles: who may call what.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tokens.bash"

ROLES='reader submitter worker manual_worker metric_writer operator'
with "$(admin token create early --role reader)" reeve list # see test_the_last_use_is_recorded

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
	for role in $ROLES admin; do admin token revoke "the-$role" >/dev/null; done
}

test_a_token_is_read_from_the_environment_or_a_file() {
	local token secret
	expect_fail 4 reeve submit nothing
	expect_match 'the call has no access token: set REEVE_ACCESS_TOKEN_FILE' "$OUTPUT"
	admin token create app --role submitter --output "$DIR/token"
	expect_eq 600 "$(stat -c %a "$DIR/token")"
	token=$(cat "$DIR/token")
	expect_match '^reeve_[0-9]+_[A-Za-z0-9_-]{43}$' "$token"
	expect_match '^[0-9]+$' "$(with "$token" reeve submit nothing)"
	expect_match '^[0-9]+$' "$(reeve --access-token-file "$DIR/token" submit nothing)"
	expect_match '^[0-9]+$' "$(REEVE_ACCESS_TOKEN_FILE=$DIR/token reeve submit nothing)"
	for bad in "${token}x" "${token%?}" "reeve_1_$(printf '%043d' 0)" reeve_ nonsense "reeve_999999999999999999_x"; do
		expect_fail 4 with "$bad" reeve submit nothing
		expect_match 'the access token is not valid' "$OUTPUT"
	done
	expect_fail 2 reeve --access-token-file "$DIR/none" submit nothing
	expect_match "access token's file $DIR/none: No such file" "$OUTPUT"
	# The secret, which may have "_" in it, is nowhere in the database or the log.
	secret=${token#reeve_*_}
	expect_eq 0 "$(sql "select count(*) from identities i where position('$secret' in i::text) > 0")"
	expect_no_match "$secret" "$(cat "$LOG")"
	admin token revoke app >/dev/null
}

test_lists_have_roles_last_use_and_expiry() {
	local id token
	token=$(admin token create used --role worker,submitter --queue mail,sms --expires 2d)
	expect_eq '["used","worker,submitter","mail,sms",true,null]' "$(admin token list --json | jq -c 'select(.name == "used") |
		[.name, (.rights.roles | join(",")), (.rights.queues | join(",")), (.created_by | length > 0), .last_used]')"
	expect_match 'NAME +ROLES.* used +worker,submitter .*mail,sms' "$(admin token list)"
	expect_eq "$(date -d '2 days' +%F)" "$(admin token list --json | jq -r 'select(.name == "used").expires' | cut -dT -f1)"
	with "$token" reeve submit nothing --queue mail >/dev/null
	id=$(admin token list --json | jq 'select(.name == "used").id')
	expect_eq "{\"id\":$((id + 1))}" "$(admin token create other --role reader --json --output "$DIR/other")"
	expect_eq "$id" "$(admin token rotate used --json | tee "$DIR/rotated" | jq .id)"
	with "$(jq -r .access_token "$DIR/rotated")" reeve submit nothing --queue mail >/dev/null
	# A resent revoke is of the identity of then.
	for n in 1 2; do
		expect_eq "$((id + 1))" "$(sql "select token_revoke('0198c0de-0000-7000-8000-000000000001', 'other', 'x')")"
		[ $n = 2 ] || admin token create other --role reader >/dev/null
	done
	expect_eq 1 "$(sql "select count(*) from identities where name = 'other' and revoked is null")"
	admin token revoke other >/dev/null
	# What expires soon is reported.
	admin token create soon --role reader --expires 2s >/dev/null
	sql "update identities set expires = expires + interval '4 days', valid_ms = 34 * 86400000::bigint where name = 'soon'"
	OUTPUT=$(admin doctor || true)
	expect_match 'warning  rights: soon: this identity expires in 4 days' "$OUTPUT"
	expect_no_match 'rights: used' "$OUTPUT"
	sql "update identities set expires = clock_timestamp() - interval '1 hour' where name = 'soon'"
	expect_match 'critical rights: soon: this identity expired 01:00:0' "$(admin doctor || true)"
	admin token revoke soon >/dev/null
	expect_fail 4 admin token create used --role reader
	expect_match 'there is an identity "used" already' "$OUTPUT"
	for bad in a/b a@b ''; do
		expect_fail "$([ "$bad" ] && echo 4 || echo 2)" admin token create "$bad" --role reader
	done
	expect_fail 2 admin token create x --role king
	expect_fail 2 admin token create x
	expect_fail 4 admin token revoke nobody
	expect_match 'there is no identity "nobody"' "$OUTPUT"
	expect_fail 4 admin token create x --role reader --queue mail
	expect_match 'rights.queues cannot be combined with the roles reader, operator and admin' "$OUTPUT"
	# No limit, and no user, is accepted that would have no effect.
	expect_fail 4 admin token create x --role submitter --metric shop
	expect_match 'rights.metrics limits only the role metric_writer' "$OUTPUT"
	expect_fail 4 admin token create x --role worker --callback-hosts example.org
	expect_match 'rights.callback_hosts limits only the role submitter' "$OUTPUT"
	expect_fail 4 admin token create x --role reader --user root
	expect_match "root or the manager's own user, is an admin without an identity" "$OUTPUT"
	admin token revoke used >/dev/null
}

# Within a minute. The token was used at the beginning of the suite.
test_the_last_use_is_recorded() {
	wait_until 80 'admin token list --json | jq -e "select(.name == \"early\").last_used" >/dev/null'
	expect_match "^$(date +%Y)" "$(admin token list --json | jq -r 'select(.name == "early").last_used')"
}

test_a_submitter_uses_its_queues_and_sees_its_own() {
	local token other id own batch
	token=$(admin token create shop --role submitter --queue mail --type echo,nothing --callback-hosts '*.example.org')
	other=$(admin submit nothing --queue mail)
	own=$(with "$token" reeve submit nothing --queue mail)
	expect_eq "$own" "$(with "$token" reeve show "$own" --json | jq .id)"
	expect_fail 4 with "$token" reeve show "$other"
	expect_match "there is no task $other" "$OUTPUT"
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
	expect_match "task $other is another caller's" "$OUTPUT"
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
	admin batch close "$batch" >/dev/null
	own=$(with "$token" reeve batch open nightly --queue mail)
	with "$token" reeve submit nothing --queue mail --batch "$own" >/dev/null
	with "$token" reeve batch close "$own" >/dev/null
	admin token revoke shop >/dev/null
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

test_a_revoked_token_ends_with_its_connections() {
	local token
	token=$(admin token create fleet --role worker,reader)
	export REEVE_ACCESS_TOKEN=$token
	start_worker
	unset REEVE_ACCESS_TOKEN
	expect [ "$(admin worker list --json | wc -l)" -ge 1 ]
	admin token revoke fleet
	wait_until 10 'expect_fail 4 with "$token" reeve list'
	# Its parked Fetch is gone: a task stays.
	id=$(admin submit nothing)
	# A worker whose token cannot change ends.
	ended worker 20
	expect_eq 4 "$STATUS"
	expect_match 'the manager refuses this worker: the access token is not valid' "$(cat "$DIR/log/worker.log")"
	expect_eq queued "$(admin show "$id" --json | jq -r .status)"
}

test_a_rotated_token_has_a_grace() {
	local old new
	old=$(admin token create turn --role reader)
	with "$old" reeve list >/dev/null
	new=$(admin token rotate turn --grace 15s)
	expect [ "$old" != "$new" ]
	with "$old" reeve list >/dev/null
	with "$new" reeve list >/dev/null
	wait_until 30 'expect_fail 4 with "$old" reeve list'
	with "$new" reeve list >/dev/null
	newest=$(admin token rotate turn --grace 0s)
	wait_until 5 'expect_fail 4 with "$new" reeve list'
	with "$newest" reeve list >/dev/null
	admin token revoke turn
}

# A worker and a waiting client read the files of their tokens again: when these change, and when a token is refused.
test_a_running_worker_uses_a_rotated_token() {
	local id
	admin token create fleet --role worker --queue turned --output "$DIR/fleet"
	admin token create waits --role reader --output "$DIR/waits"
	start_worker rotated --queue turned --access-token-file "$DIR/fleet"
	id=$(admin submit nothing --queue turned --delay 1h)
	start waiting "$REEVE_BIN/reeve" --manager "$TCP" --access-token-file "$DIR/waits" wait "$id" --max-wait 2m
	# Within the grace: it uses the new token before the old one ends.
	admin token rotate fleet --grace 8s --output "$DIR/new" && mv "$DIR/new" "$DIR/fleet"
	admin token rotate waits --grace 8s --output "$DIR/new" && mv "$DIR/new" "$DIR/waits"
	wait_until 20 'grep -q "read the changed access token" "$DIR/log/rotated.log"'
	wait_until 20 '[ "$(sql "select count(*) from old_secrets o join identities i on i.id = o.identity_id
		where i.name in ('\''fleet'\'', '\''waits'\'') and valid_until > clock_timestamp()")" = 0 ]'
	admin submit nothing --queue turned --wait >/dev/null
	expect_no_match 'not valid' "$(cat "$DIR/log/rotated.log")"
	# Without a grace: it is refused until the file has the new one.
	admin token rotate fleet --grace 0s --output "$DIR/new"
	wait_until 20 'grep -q "the access token is not valid.*waiting until $DIR/fleet has another one" "$DIR/log/rotated.log"'
	mv "$DIR/new" "$DIR/fleet"
	admin submit nothing --queue turned --wait >/dev/null
	expect_eq 1 "$(grep -c 'not valid' "$DIR/log/rotated.log")"
	# A signal makes it read the file at once; one that has no token changes nothing.
	: >"$DIR/fleet"
	kill -HUP "$(pid rotated)"
	wait_until 5 'grep -q "$DIR/fleet has no access token; the access token that was read before stays in use" "$DIR/log/rotated.log"'
	admin submit nothing --queue turned --wait >/dev/null
	admin update "$id" --delay 0s >/dev/null
	ended waiting 30
	expect_eq 0 "$STATUS"
	stop rotated
	admin token revoke fleet
	admin token revoke waits
}

test_a_rotated_token_is_valid_as_long_as_before() {
	local old new expires
	expires() { admin token list --json | jq -r 'select(.name == "lasting").expires'; }
	admin token create lasting --role reader --expires 10d >/dev/null
	expires=$(expires)
	admin token rotate lasting >/dev/null
	expect [ "$(expires)" '>' "$expires" ]
	expires=$(expires)
	admin token rotate lasting --expires 5d >/dev/null
	expect [ "$(expires)" '<' "$expires" ]
	expect_no_match 'rights: lasting' "$(admin doctor || true)"
	sql "update identities set expires = now() + interval '23 hours' where name = 'lasting' and revoked is null" >/dev/null
	expect_match 'warning +rights: lasting: this identity expires in 22:5' "$(admin doctor || true)"
	old=$(admin token rotate lasting --expires 2s)
	with "$old" reeve list >/dev/null
	wait_until 10 'expect_fail 4 with "$old" reeve list'
	# One that has expired is valid again, with its new secret alone.
	new=$(admin token rotate lasting --grace 1h)
	with "$new" reeve list >/dev/null
	wait_until 5 'expect_fail 4 with "$old" reeve list'
	wait_until 10 'expect_fail 4 with "$new" reeve list'
	admin token revoke lasting
}

test_each_old_token_has_its_grace() {
	local first second third
	first=$(admin token create thrice --role reader)
	second=$(admin token rotate thrice)
	third=$(admin token rotate thrice --grace 1d)
	with "$third" reeve list >/dev/null
	with "$second" reeve list >/dev/null
	with "$first" reeve list >/dev/null
	third=$(admin token rotate thrice --grace 0s)
	wait_until 5 'expect_fail 4 with "$second" reeve list'
	expect_fail 4 with "$first" reeve list
	with "$third" reeve list >/dev/null
	admin token revoke thrice
}

test_an_expired_token_is_refused_and_its_name_is_free() {
	local token
	token=$(admin token create short --role reader --expires 2s)
	with "$token" reeve list >/dev/null
	wait_until 10 'expect_fail 4 with "$token" reeve list'
	admin token create short --role reader >/dev/null
	admin token revoke short
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
