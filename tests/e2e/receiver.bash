# shellcheck shell=bash
# A receiver of HTTP callbacks, for the end-to-end tests that source this file.

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

counter() { # NAME: of REEVE_MANAGER
	reeve stats --json | jq ".counters[] | select(.name == \"$1\") | .value"
}

calls() { # NAME ID [FILTER]: of the calls of this callback
	jq -r "select(.id == \"cb_$2\") | ${3:-.path}" "$DIR/$1.calls"
}
