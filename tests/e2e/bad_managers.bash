# shellcheck shell=bash
# Managers by HTTP that behave badly (tests/tools/bad_manager.py). Sourced after lib.sh.
#
#	bad_manager NAME KIND [URL]    starts one; ${BAD[NAME]} is its URL. The kind `faulty` needs that of a manager

declare -A BAD=()

bad_manager() { # NAME KIND [URL]
	local port
	port=$(free_port)
	start "$1" python3 "$TOP/tests/tools/bad_manager.py" "$port" "${@:2}"
	BAD[$1]=http://127.0.0.1:$port
	wait_until 20 "grep -q ready '$DIR/log/$1.log'"
}
