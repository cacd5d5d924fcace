#!/usr/bin/env bash
# HTTP callbacks: delivered once each, signed, tried again with rests that grow, given up in the end; and what receivers do
# wrong holds up neither other callbacks nor the manager.
# timeout 600
# shellcheck disable=SC1091,SC2016
. "$(dirname "$0")/lib.sh"

SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw

receiver() { # [NAME] [OPTION…]: its URL is ${URL[NAME]}, what it was told is in $DIR/NAME.calls
	local name=receiver
	case ${1:--} in -*) ;; *) name=$1 && shift ;; esac
	PORT[$name]=${PORT[$name]:-$(free_port)}
	URL[$name]=http://127.0.0.1:${PORT[$name]}
	start "$name" "$TOP/tests/tools/http_receiver.py" --port "${PORT[$name]}" --log "$DIR/$name.calls" --secret "$SECRET" "$@"
	wait_until 20 "(exec 3<>/dev/tcp/127.0.0.1/${PORT[$name]}) 2>/dev/null"
	touch "$DIR/$name.calls"
}

callback() { # URL [SECRET] [PAYLOAD]: puts one there, as what ends tasks does; prints its id
	sql "insert into callbacks (batch_id, task_id, event, url, secret, payload) values (1, 1, 'task_end', '$1',
		nullif('${2:-$SECRET}', 'none'), '${3:-{\"event\": \"task_end\"\}}') returning id"
}

state_of() { # ID: state, tries, status, error
	sql "select concat_ws(' ', state, attempts, last_status, last_error) from callbacks where id = $1"
}

settled() { # ID [SECONDS]: waits until it is delivered or given up
	wait_until "${2:-30}" "[ \"\$(sql \"select state from callbacks where id = $1\")\" != waiting ]"
}

tried() { # ID N [SECONDS]: waits until N tries have come to their end
	wait_until "${3:-30}" "[ \"\$(sql \"select count(*) from callbacks where id = $1 and attempts >= $2 and
		(last_error is not null or state <> 'waiting')\")\" = 1 ]"
}

calls() { # NAME ID [FILTER]: of the calls of this callback
	jq -r "select(.id == \"cb_$2\") | ${3:-.path}" "$DIR/$1.calls"
}

story_a_callback_is_delivered_and_its_signature_is_good() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/ok" "$SECRET" '{"text": "ü €"}')
	settled "$id"
	expect_eq 'delivered 1 200' "$(state_of "$id")"
	expect_eq '/ok true application/json null' "$(calls receiver "$id" '"\(.path) \(.signed) \(.type) \(.expect)"')"
	expect_match '^Reeve/[0-9.]+$' "$(calls receiver "$id" .agent)"
	expect_eq '{"text": "ü €"}' "$(calls receiver "$id" .body)"
	# A secret that is text, another one than the receiver's, and none.
	id=$(callback "${URL[receiver]}/ok" another)
	settled "$id"
	expect_eq false "$(calls receiver "$id" .signed)"
	id=$(callback "${URL[receiver]}/ok" none)
	settled "$id"
	expect_eq null "$(calls receiver "$id" .signed)"
	expect_eq 3 "$(reeve stats --json | jq '.counters[] | select(.name == "callbacks_delivered") | .value')"
}

story_failures_are_tried_again_under_the_same_id() {
	start_postgres
	start_manager
	receiver
	id=$(callback "${URL[receiver]}/fail/2")
	settled "$id"
	expect_eq "delivered 3 200 HTTP status 500" "$(state_of "$id")"
	expect_eq 3 "$(calls receiver "$id" | wc -l)"
	expect_eq 'true true true' "$(calls receiver "$id" .signed | xargs)"
	# 1 s and 4 s, less a random part of a quarter at most; up to a second more until it is looked.
	calls receiver "$id" .t >"$DIR/times"
	expect awk 'NR > 1 { rest = $1 - last; low = NR == 2 ? 0.7 : 2.9; if (rest < low || rest > low * 1.5 + 2) exit 1 } { last = $1 }' "$DIR/times"
	expect_eq 2 "$(reeve stats --json | jq '.counters[] | select(.name == "callbacks_failed") | .value')"
}

run_stories
