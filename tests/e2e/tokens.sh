#!/usr/bin/env bash
# Access tokens and roles: who may call what.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

ROLES='reader submitter worker manual_worker metric_writer operator'

start_postgres
PORT[manager]=$(free_port)
TCP=tcp://127.0.0.1:${PORT[manager]} IPC=ipc://$DIR/socket
URL[manager]=$TCP
LOG=$DIR/log/manager.log # the tests have folders of their own
export REEVE_MANAGER=$TCP
start manager "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$TCP,$IPC" --socket-mode 0666 --auth required
wait_until 60 '"$REEVE_BIN/reeve" --manager "$IPC" stats >/dev/null'

admin() { # ARGUMENT…: as this user, on the ipc socket
	"$REEVE_BIN/reeve" --manager "$IPC" "$@"
}

with() { # TOKEN COMMAND…
	REEVE_ACCESS_TOKEN=$1 "${@:2}"
}

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
	admin token create used --role worker,submitter --queue mail,sms --expires 2d >/dev/null
	expect_eq '["used","worker,submitter","mail,sms",true,null]' "$(admin token list --json | jq -c 'select(.name == "used") |
		[.name, (.rights.roles | join(",")), (.rights.queues | join(",")), (.created_by | length > 0), .last_used]')"
	expect_match 'NAME +ROLES.* used +worker,submitter .*mail,sms' "$(admin token list)"
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
	admin token revoke used >/dev/null
}

test_a_submitter_uses_its_queues_and_sees_its_own() {
	local token other id own batch
	token=$(admin token create shop --role submitter --queue mail --type echo,nothing --callback-host '*.example.org')
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
	id=$(with "$mine" reeve submit nothing --queue mail --key order-2 --version 1 --delay 1h 'pay 10')
	expect_eq "$id" "$(with "$mine" reeve submit nothing --queue mail --key order-2 --version 1 'pay 10' 2>/dev/null)"
	for version in '' '--version 1' '--version 2'; do
		expect_fail 4 with "$other" reeve submit nothing --queue mail --key order-2 $version 'pay 10000'
		expect_match 'the key "order-2" in the queue "mail" is of another caller.s task' "$OUTPUT"
	done
	# Of a call with several tasks nothing is created; and other calls are served.
	printf '{"type":"nothing","key":"new-%s"}\n' 1 2 | sed '2s/new-2/order-2/' >"$DIR/bulk"
	expect_fail 4 with "$other" reeve submit --queue mail --bulk "$DIR/bulk"
	expect_eq 0 "$(sql "select count(*) from keys where key = 'new-1'")"
	expect_eq 'shopa pay 10' "$(admin show "$id" --json | jq -r '"\(.source | split("/")[0]) \(.details)"')"
	with "$mine" reeve submit nothing --queue mail --key order-2 --version 2 'pay 20' >/dev/null 2>&1
	wait_until 20 '[ "$(admin show "$id" --json | jq -r .details)" = "pay 20" ]'
	# Nor when it has ended, or in a batch; but an operator may.
	with "$mine" reeve cancel "$id" >/dev/null 2>&1 || admin cancel "$id" >/dev/null
	expect_fail 4 with "$other" reeve submit nothing --queue mail --key order-2 --version 3
	batch=$(with "$other" reeve batch open nightly --queue mail)
	expect_fail 4 with "$other" reeve submit nothing --queue mail --batch "$batch" --key order-2 --version 3
	expect_eq "$id" "$(admin submit nothing --queue mail --key order-2 --version 3 --delay 1h 2>/dev/null)"
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
	local reeve="'$REEVE_BIN/reeve'" id child said token
	token=$(admin token create handlers --role worker --queue work)
	export REEVE_ACCESS_TOKEN=$token
	start_worker
	unset REEVE_ACCESS_TOKEN
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
	wait_until 20 'grep -q UNAUTHENTICATED\\\|"not valid" "$DIR/log/worker.log"'
	expect_eq queued "$(admin show "$id" --json | jq -r .status)"
	stop worker KILL
}

test_a_rotated_token_has_a_grace() {
	local old new
	old=$(admin token create turn --role reader)
	with "$old" reeve list >/dev/null
	new=$(admin token rotate turn --grace 3s)
	expect [ "$old" != "$new" ]
	with "$new" reeve list >/dev/null
	with "$old" reeve list >/dev/null
	wait_until 10 'expect_fail 4 with "$old" reeve list'
	with "$new" reeve list >/dev/null
	newest=$(admin token rotate turn --grace 0s)
	wait_until 5 'expect_fail 4 with "$new" reeve list'
	with "$newest" reeve list >/dev/null
	admin token revoke turn
}

# Programs read a changed file again, so that a fleet gets its new token without a restart, also after the old one's end.
test_a_rotated_tokens_file_is_read_again() {
	admin token create turning --role worker --output "$DIR/turning.token"
	start_worker turning --access-token-file "$DIR/turning.token" --queue turning
	admin token rotate turning --grace 0s --output "$DIR/turning.new"
	wait_until 20 'grep -q "the access token is not valid" "$DIR/log/turning.log"'
	mv "$DIR/turning.new" "$DIR/turning.token"
	expect_eq back "$(admin submit echo back --queue turning --wait)"
	expect_match "read the access token.s changed file $DIR/turning.token again" "$(cat "$DIR/log/turning.log")"
	: >"$DIR/turning.token"
	wait_until 40 'grep -q "turning.token: there is no access token; the access token stays as it was" "$DIR/log/turning.log"'
	expect_eq still "$(admin submit echo still --queue turning --wait)"
	stop turning
	admin token revoke turning
}

test_an_expired_token_is_refused_and_its_name_is_free() {
	local token
	token=$(admin token create short --role reader --expires 2s)
	with "$token" reeve list >/dev/null
	wait_until 10 'expect_fail 4 with "$token" reeve list'
	admin token create short --role reader >/dev/null
	admin token revoke short
}

test_the_audit_has_the_identity_of_the_caller() {
	local token id
	token=$(admin token create shop --role submitter,operator)
	id=$(with "$token" reeve submit nothing --queue audited)
	expect_match '^shop/.+@' "$(admin show "$id" --json | jq -r .source)"
	expect_match '^shop/.+@' "$(admin audit "$id" --json | jq -r 'select(.event == "submitted").actor')"
	id=$(with "$token" reeve submit nothing --queue audited --source 'root/of all')
	expect_eq 'shop/root/of all' "$(admin show "$id" --json | jq -r .source)"
	expect_eq 'shop/nightly' "$(admin show "$(with "$token" reeve submit nothing --queue audited --source shop/nightly)" --json | jq -r .source)"
	with "$token" reeve cancel "$id" >/dev/null
	expect_match '^shop/.+@' "$(admin audit "$id" --json | jq -r 'select(.event == "cancel_requested" or .event == "cancelled").actor' | grep . | head -n 1)"
	with "$token" reeve queue pause audited >/dev/null
	expect_match '^shop/.+@' "$(sql "select actor from queue_events where queue = 'audited' limit 1")"
	# So do the tasks of a schedule that says whose they are.
	with "$token" reeve schedule add hourly --every 1h nothing --source root >/dev/null
	expect_eq shop/root "$(admin schedule show hourly --json | jq -r .task.source)"
	with "$token" reeve schedule edit hourly --source admin >/dev/null
	expect_eq shop/admin "$(admin schedule show hourly --json | jq -r .task.source)"
	with "$token" reeve schedule remove hourly >/dev/null
	# Identities have events of their own.
	admin token rotate shop >/dev/null
	expect_eq 'token_created shop: submitter, operator token_rotated shop' "$(admin audit --event token_created,token_rotated --json |
		jq -r 'select(.note | startswith("shop")) | .event, .note' | tail -n 4 | xargs)"
	# What this user says of itself begins with its name.
	expect_match "^$(id -un)@" "$(admin show "$(admin submit nothing)" --json | jq -r .source)"
	admin token revoke shop >/dev/null
}

# 10,000 guesses on 20 connections: in ten seconds some hundreds are answered. A caller with a token notices nothing.
test_guesses_are_slow_and_logged_once() {
	local n token answered
	token=$(admin token create honest --role reader)
	for n in $(seq 20); do
		REEVE_ACCESS_TOKEN=reeve_1_$n start "guesser-$n" "$REEVE_BIN/raw-call" "$TCP" /reeve.v1.TaskService/List 500
	done
	with "$token" timeout 20 "$REEVE_BIN/reeve" list >/dev/null
	for n in $(seq 20); do ended "guesser-$n" 60; done
	answered=$(cat "$DIR"/log/guesser-*.log | grep -c "^16 " || true)
	expect [ "$answered" -le 500 ]
	expect_eq 1 "$(grep -c 'access tokens that are not valid' "$LOG")"
	with "$token" reeve list >/dev/null
	admin token revoke honest
}

# An envelope with a token of so many bytes.
envelope() { # BYTES
	python3 -c '
import sys
def field(number, content):
	length, out = len(content), bytes([number << 3 | 2])
	while length > 127:
		out, length = out + bytes([length & 127 | 128]), length >> 7
	return out + bytes([length]) + content
sys.stdout.buffer.write(field(1, b"/reeve.v1.TaskService/List") + field(4, b"x" * int(sys.argv[1])) + bytes([7 << 3, 1]))' "$1"
}

test_a_long_token_is_refused() {
	expect_match '^16 the access token is not valid' "$(envelope 4096 | "$REEVE_BIN/raw-call" "$TCP" -)"
	for bytes in 4097 1048576; do
		expect_match "^3 token has $bytes bytes; at most 4096 are taken" "$(envelope $bytes | "$REEVE_BIN/raw-call" "$TCP" -)"
	done
	# Nor does a program send one.
	head -c 1048576 /dev/zero | tr '\0' x >"$DIR/long"
	expect_fail 2 reeve --access-token-file "$DIR/long" list
	expect_match 'an access token has up to 4096 bytes' "$OUTPUT"
}

test_a_call_ends_with_its_token() {
	local token id
	token=$(admin token create waits --role reader)
	id=$(admin submit nothing --delay 1h)
	REEVE_ACCESS_TOKEN=$token start waiter "$REEVE_BIN/reeve" --manager "$TCP" wait "$id"
	wait_until 10 '[ "$(find "/proc/$(pid waiter)/fd" -lname "socket:*" 2>/dev/null)" ]'
	with "$token" reeve list >/dev/null
	admin token revoke waits
	ended waiter 20
	expect_eq 4 "$STATUS"
	expect_match 'the access token is not valid' "$(cat "$DIR/log/waiter.log")"
	admin cancel "$id" >/dev/null
}

test_users_of_the_machine_have_identities_on_ipc_sockets() {
	[ "$(id -u)" = 0 ] || return 0
	chmod 755 "$DIR"
	user() { as_user env HOME=/nonexistent "$REEVE_BIN/reeve" --manager "$IPC" "$@"; }
	expect_fail 4 user list
	expect_match 'has no identity' "$OUTPUT"
	admin token create nob --role reader --user "$USER_NAME"
	user list >/dev/null
	expect_fail 4 user submit nothing
	expect_match '"nob" may not call' "$OUTPUT"
	admin token revoke nob
	wait_until 10 'expect_fail 4 user list'
}

test_programs_of_a_worker_do_not_get_its_token() {
	local token
	token=$(admin token create fleet --role worker)
	export REEVE_ACCESS_TOKEN=$token REEVE_ACCESS_TOKEN_FILE=$DIR/none
	start_worker
	unset REEVE_ACCESS_TOKEN REEVE_ACCESS_TOKEN_FILE
	expect_eq '' "$(admin submit sh 'env | grep ^REEVE_ACCESS_TOKEN || true' --wait)"
	# Nor do the environments of the supervisor and the worker show it.
	expect_eq '0 2' "$(admin submit sh 'read -r _ _ _ worker _ </proc/$PPID/stat
		cat /proc/$PPID/environ /proc/$worker/environ | tr "\0" "\n" >'"$DIR/seen"'
		echo $(grep -c "^REEVE_ACCESS_TOKEN=." '"$DIR/seen"') $(grep -c "^PATH=" '"$DIR/seen"')' --wait)"
	admin token revoke fleet
	stop worker KILL
}

# Runs a command in a network of its own, with the addresses 127.0.0.1 and 10.99.0.1.
in_network() { # COMMAND…
	exec nsenter --net="/proc/$(pid network)/ns/net" "$@"
}

test_a_manager_that_others_reach_starts_only_with_insecure() {
	[ "$(id -u)" = 0 ] || return 0
	start network unshare --net sleep 300
	wait_until 10 '[ "$(readlink "/proc/$(pid network)/ns/net")" != "$(readlink /proc/self/ns/net)" ]'
	(in_network ip link set lo up)
	(in_network ip address add 10.99.0.1/32 dev lo)
	other() { (in_network "$REEVE_BIN/reeve-manager" --database "$CONNINFO" "$@"); }
	for url in tcp://0.0.0.0:7000 tcp://10.99.0.1:7000 'tcp://[::]:7000'; do
		expect_fail 4 other --listen "tcp://127.0.0.1:7001,$url"
		expect_match "other machines can reach $(sed 's/[][]/./g' <<<"$url"), .* start with --insecure" "$OUTPUT"
	done
	sql 'delete from identities'
	start exposed nsenter --net="/proc/$(pid network)/ns/net" "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen tcp://0.0.0.0:7000 \
		--insecure --admin-token-file "$DIR/first"
	wait_until 30 '[ -e "$DIR/first" ]'
	expect_match 'warn .*--insecure: other machines can reach tcp://0.0.0.0:7000' "$(cat "$DIR/log/exposed.log")"
	expect_match 'callers on this machine without an access token may do everything' "$(cat "$DIR/log/exposed.log")"
	from() { (in_network "$REEVE_BIN/reeve" --manager "tcp://$1:7000" "${@:2}"); }
	wait_until 30 'from 127.0.0.1 list'
	expect_fail 4 from 10.99.0.1 list
	expect_match 'the call has no access token' "$OUTPUT"
	expect_eq 600 "$(stat -c %a "$DIR/first")"
	from 10.99.0.1 --access-token-file "$DIR/first" token list >/dev/null
	stop exposed
}

test_one_manager_creates_the_first_admins_token() {
	local n
	sql 'delete from identities'
	for n in 1 2 3; do
		start "first-$n" "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "ipc://$DIR/first-$n" --auth required --admin-token-file "$DIR/admin-$n"
	done
	for n in 1 2 3; do wait_until 60 '"$REEVE_BIN/reeve" --manager "ipc://$DIR/first-$n" stats >/dev/null'; done
	expect_eq 1 "$(find "$DIR" -maxdepth 1 -name 'admin-*' | wc -l)"
	expect_eq 1 "$(sql 'select count(*) from identities')"
	# One that is lost is replaced.
	old=$(cat "$DIR"/admin-?)
	with "$old" reeve list >/dev/null
	new=$("$REEVE_BIN/reeve-manager" --database "$CONNINFO" --create-admin-token 2>/dev/null)
	with "$new" reeve token list >/dev/null
	wait_until 5 'expect_fail 4 with "$old" reeve list'
	expect_eq 1 "$(sql 'select count(*) from identities')"
	# Also after the name was used for something else.
	with "$new" reeve token create other --role admin >/dev/null
	with "$new" reeve token revoke admin >/dev/null
	"$REEVE_BIN/reeve" --manager "ipc://$DIR/first-1" token create admin --role reader --certificate
	new=$("$REEVE_BIN/reeve-manager" --database "$CONNINFO" --create-admin-token 2>/dev/null)
	wait_until 5 'with "$new" reeve token list >/dev/null'
	for n in 1 2 3; do stop "first-$n"; done
}

# Also into a pipe or a file, while the manager runs.
test_the_first_admins_token_is_printed_at_once() {
	sql 'delete from identities'
	start prints "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "ipc://$DIR/prints" --auth required
	wait_until 30 'grep -qE "^reeve_[0-9]+_" "$DIR/log/prints.log"'
	with "$(grep -E '^reeve_' "$DIR/log/prints.log")" reeve token list >/dev/null
	stop prints
}

test_a_local_caller_needs_no_token_by_default() {
	start_manager open
	expect_match 'callers on this machine without an access token may do everything \(--auth local\)' "$(cat "$DIR/log/open.log")"
	reeve submit nothing >/dev/null
	expect_fail 4 with reeve_1_x reeve list
	expect_match 'the access token is not valid' "$OUTPUT"
	# Nor does what is not signed make its caller an admin.
	for bad in reeve_a0_1_1_1_ "reeve_a0_1_1_1_$(printf '%064d' 0)"; do
		expect_fail 4 with "$bad" reeve list
		expect_match 'the access token of the attempt is not valid' "$OUTPUT"
	done
	stop open
}

run_tests
