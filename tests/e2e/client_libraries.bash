# shellcheck shell=bash
# For the end-to-end tests of client libraries, by HTTP. $H is the manager's URL.
#
#	start_long_leases            starts the manager of a suite, in which no worker's lease ends
#	start_short_leases           starts another one, for what follows, in which leases end soon
#	start_short_messages         starts another one, for what follows, which omits results of more than half a megabyte
#	alive_workers                prints the names of the workers that are alive
#	expect_first_attempt ID      waits for the task, whose first attempt must complete it

start_long_leases() {
	H=http://127.0.0.1:$(free_port)
	start_manager manager --http "$H" --lease 15s --heartbeat 500ms --max-message 1500KiB
}

start_short_leases() {
	H=http://127.0.0.1:$(free_port)
	start_manager short --http "$H" --lease 3s --heartbeat 500ms
}

start_short_messages() {
	H=http://127.0.0.1:$(free_port)
	start_manager messages --http "$H" --max-details 128KiB --max-result 128KiB --max-message 512KiB
}

alive_workers() {
	reeve worker list --json | jq -r 'select(.state == "alive").name'
}

expect_first_attempt() {
	reeve wait "$1" --max-wait 60s >/dev/null
	expect_eq 1 "$(reeve show "$1" --json | jq -r .attempt)"
}
