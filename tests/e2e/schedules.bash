# shellcheck shell=bash
# Schedules and their runs, for the end-to-end tests that source this file after tasks.bash.

of() { # NAME FILTER: of the schedule as JSON
	reeve schedule show "$1" --json | jq -r "$2"
}

runs() { # NAME FIELD…: those fields of its runs, oldest first, a run a line
	local name=$1
	shift
	reeve schedule runs "$name" --limit 10000 --json | jq -rs "reverse | .[] | [$(printf '.%s,' "$@" | sed 's/,$//')] | map(. // 0) | join(\" \")"
}

resend() { # see tests/tools/resend.c
	"$REEVE_BIN/resend" "$@"
}
