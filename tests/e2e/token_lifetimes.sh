#!/usr/bin/env bash
# Access tokens from their creation to their end: read from files, listed, rotated, revoked, expired.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tokens.bash"

with "$(admin token create early --role reader)" reeve list # see test_the_last_use_is_recorded

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
	# The file of the option counts first, then the variable, then the variable's file.
	expect_match '^[0-9]+$' "$(REEVE_ACCESS_TOKEN=wrong reeve --access-token-file "$DIR/token" submit nothing)"
	expect_match '^[0-9]+$' "$(REEVE_ACCESS_TOKEN_FILE=$DIR/none with "$token" reeve submit nothing)"
	# No command line takes a token.
	for option in --access-token --token; do
		expect_fail 2 reeve $option "$token" list
		expect_fail 2 "$REEVE_BIN/reeve-worker" $option "$token" --handlers "$HANDLERS"
	done
	# The secret, which may have "_" in it, is nowhere in the database or the log.
	secret=${token#reeve_*_}
	"$REEVE_TEST_PG_BIN/pg_dump" -h "$PGDIR" -U reeve -d reeve --inserts >"$DIR/dump"
	expect_match 'INSERT INTO reeve.identities .*app' "$(grep 'INSERT.*identities ' "$DIR/dump")"
	expect_eq 0 "$(grep -cF -e "$secret" "$DIR/dump")"
	expect_no_match "$secret" "$(cat "$LOG")"
	admin token revoke app >/dev/null
}

test_lists_have_roles_last_use_and_expiry() {
	local id token
	token=$(admin token create used --role worker,submitter --queue mail,sms --expires 2d)
	expect_eq '["used","worker,submitter","mail,sms",true,null]' "$(admin token list --json | jq -c 'select(.name == "used") |
		[.name, (.rights.roles | join(",")), (.rights.queues | join(",")), (.created_by | length > 0), .last_used]')"
	expect_match 'NAME +ROLES.* USED +EXPIRES.* used +worker,submitter .*mail,sms .* - +in (2d|47h) ' "$(admin token list)"
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
	admin token create soon --role reader --expires 1h >/dev/null
	sql "update identities set expires = expires + interval '4 days', valid_ms = 34 * 86400000::bigint where name = 'soon'"
	OUTPUT=$(admin doctor || true)
	expect_match 'warning  rights: soon: this identity expires in 4 days' "$OUTPUT"
	expect_no_match 'rights: used' "$OUTPUT"
	sql "update identities set expires = clock_timestamp() - interval '1 hour' where name = 'soon'"
	expect_match 'critical rights: soon: this identity expired 01:0' "$(admin doctor || true)"
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
	expect_match '^reeve: --queue cannot be combined with the roles reader, operator and admin' "$OUTPUT"
	# No limit, and no user, is accepted that would have no effect.
	expect_fail 4 admin token create x --role submitter --metric shop
	expect_match '^reeve: --metric limits only the role metric_writer' "$OUTPUT"
	expect_fail 4 admin token create x --role worker --callback-hosts example.org
	expect_match '^reeve: --callback-hosts limits only the role submitter' "$OUTPUT"
	expect_fail 4 admin token create x --role reader --user root
	expect_match "root or the manager's own user, is an admin without an identity" "$OUTPUT"
	admin token revoke used >/dev/null
}

# Within a minute. The token was used at the beginning of the suite.
test_the_last_use_is_recorded() {
	wait_until 80 'admin token list --json | jq -e "select(.name == \"early\").last_used" >/dev/null'
	expect_match "^$(date +%Y)" "$(admin token list --json | jq -r 'select(.name == "early").last_used')"
	expect_match ' early +reader( +[^ ]+){5} +[0-9]+[sm] ' "$(admin token list)"
}

test_a_revoked_token_ends_with_its_connections() {
	local token
	token=$(admin token create fleet --role worker,reader)
	export REEVE_ACCESS_TOKEN=$token
	start_worker
	unset REEVE_ACCESS_TOKEN
	expect [ "$(admin worker list --json | wc -l)" -ge 1 ]
	admin token revoke fleet
	expect_fail 4 with "$token" reeve list
	# Its parked Fetch is gone: a task stays.
	id=$(admin submit nothing)
	# A worker whose token cannot change ends.
	ended worker 20
	expect_eq 4 "$STATUS"
	expect_match 'the manager refuses this worker: the access token is not valid' "$(cat "$DIR/log/worker.log")"
	expect_eq queued "$(admin show "$id" --json | jq -r .status)"
}

# Each change is followed by another call to the same manager at once, which no notification precedes.
test_a_token_ends_before_its_revoke_is_answered() {
	local old new own
	sql "$(sed '/pg_notify/d' "$TOP/sql/functions/token_event.sql")"
	for n in 1 2 3; do
		old=$(admin token create brief --role reader)
		with "$old" reeve list >/dev/null
		new=$(admin token rotate brief --grace 0s)
		expect_fail 4 with "$old" reeve list
		with "$new" reeve list >/dev/null
		admin token revoke brief
		expect_fail 4 with "$new" reeve list
	done
	# A caller that revokes its own token gets the answer.
	own=$(admin token create brief --role admin)
	with "$own" reeve token revoke brief
	expect_fail 4 with "$own" reeve list
	sql "$(cat "$TOP/sql/functions/token_event.sql")"
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
	local id old
	admin token create fleet --role worker --queue turned --output "$DIR/fleet"
	admin token create waits --role reader --output "$DIR/waits"
	start_worker rotated --queue turned --access-token-file "$DIR/fleet"
	id=$(admin submit nothing --queue turned --delay 1h)
	start waiting "$REEVE_BIN/reeve" --manager "$TCP" --access-token-file "$DIR/waits" wait "$id" --max-wait 2m
	# Within the grace: it uses the new token before the old one ends.
	old=$(cat "$DIR/waits")
	admin token rotate fleet --grace 1h --output "$DIR/new" && mv "$DIR/new" "$DIR/fleet"
	admin token rotate waits --grace 1h --output "$DIR/new" && mv "$DIR/new" "$DIR/waits"
	wait_until 20 'grep -q "read the changed access token" "$DIR/log/rotated.log"'
	admin submit nothing --queue turned --wait >/dev/null # the Fetch that follows has the new token
	sql "update old_secrets set valid_until = clock_timestamp() where identity_id in (select id from identities where name in ('fleet', 'waits'));
		select pg_notify('reeve_notify', 'identities')" >/dev/null
	wait_until 20 'expect_fail 4 with "$old" reeve list'
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

# The manager reads that time before it comes, and has to notice itself that it has come.
expires_soon() { # NAME
	sql "update identities set expires = clock_timestamp() + interval '1 second' where name = '$1' and revoked is null;
		select pg_notify('reeve_notify', 'identities')" >/dev/null
}

# A worker whose file gets a token of another identity, after a revoke or while the former one is valid, may not go on as
# the incarnation that the former one registered. When that is lost it registers again.
test_a_running_worker_uses_a_token_of_another_identity() {
	local first
	admin token create fleet --role worker --queue moved --output "$DIR/fleet"
	admin token create other --role worker --queue moved --output "$DIR/other"
	start_worker moved --queue moved --access-token-file "$DIR/fleet"
	first=$(serves_long)
	admin token revoke fleet
	admin token create fleet --role worker --queue moved --output "$DIR/new"
	wait_until 20 'grep -q "the access token is not valid.*waiting until $DIR/fleet has another one" "$DIR/log/moved.log"'
	mv "$DIR/new" "$DIR/fleet"
	registers_again "$first"
	first=$(serves_long)
	mv "$DIR/other" "$DIR/fleet"
	registers_again "$first"
	stop moved
	admin token revoke fleet
	admin token revoke other
}

serves_long() { # prints the incarnation of the worker "moved", which is not lost until registers_again
	sql "update workers set lease_ms = 600000 where name = 'moved' and not lost returning id"
}

registers_again() { # INCARNATION: that is lost, and the worker "moved" goes on with the next one
	local former=$1
	wait_until 20 'grep -q "incarnation: $former was not registered by" "$DIR/log/moved.log"'
	sql "update workers set lease_ms = 1000 where id = $former"
	wait_until 20 '[ "$(worker_incarnation moved)" -gt "$former" ]'
	expect_eq lost "$(sql "select event from worker_events where worker_id = $former and event in ('lost', 'left')")"
	timeout 60 "$REEVE_BIN/reeve" --manager "$IPC" submit nothing --queue moved --wait >/dev/null
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
	expect_match '^lasting: expires 2[0-9-]+T' "$(admin audit --event token_rotated -n 1 --json | jq -r .note)"
	expect [ "$(expires)" '<' "$expires" ]
	expect_no_match 'rights: lasting' "$(admin doctor || true)"
	sql "update identities set expires = now() + interval '23 hours' where name = 'lasting' and revoked is null" >/dev/null
	expect_match 'warning +rights: lasting: this identity expires in 22:5' "$(admin doctor || true)"
	old=$(admin token rotate lasting --expires 1h)
	with "$old" reeve list >/dev/null
	expires_soon lasting
	wait_until 10 'expect_fail 4 with "$old" reeve list'
	# One that has expired is valid again, with its new secret alone, and as long as before.
	new=$(admin token rotate lasting --grace 1h)
	with "$new" reeve list >/dev/null
	expect_eq t "$(sql "select expires - now() between '55 minutes' and '1 hour' from identities where name = 'lasting'")"
	wait_until 5 'expect_fail 4 with "$old" reeve list'
	with "$new" reeve list >/dev/null
	expires_soon lasting
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
	token=$(admin token create short --role reader --expires 1h)
	with "$token" reeve list >/dev/null
	expires_soon short
	wait_until 10 'expect_fail 4 with "$token" reeve list'
	admin token create short --role reader >/dev/null
	admin token revoke short
}

run_tests
