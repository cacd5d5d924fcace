# shellcheck shell=bash
# Locks of rows and tables, for the end-to-end tests that source this file.
#
#	hold NAME 'STATEMENT…'       runs the statements in a transaction of its own, and keeps it open
#	holder NAME                  prints the process id of its session
#	let_go NAME                  rolls it back
#	launch_clockless OPTION…     launches the manager; its first heartbeat, which reads the database's clock, waits until
#	                             `let_go heartbeats`
#	$UNTIL_AWAITED               SQL for a transaction: returns when another one waits for a lock of it, or after
#	                             20 s
#	blocked ROLE                 whether a manager's connection with that role waits for a lock

UNTIL_AWAITED="do 'begin
	for i in 1..2000 loop
		exit when exists (select from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid)));
		perform pg_sleep(0.01);
	end loop;
end'"

hold() {
	PGAPPNAME=hold-$1 start "$1" sql "begin; $2; select pg_sleep(3600)"
	wait_until 20 "[ \"\$(sql \"select wait_event from pg_stat_activity where application_name = 'hold-$1'\")\" = PgSleep ]"
}

holder() {
	sql "select pid from pg_stat_activity where application_name = 'hold-$1'"
}

let_go() {
	sql "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hold-$1'" >/dev/null
	ended "$1"
}

blocked() {
	[ "$(sql "select count(*) from pg_stat_activity
		where application_name = 'reeve-manager $1' and wait_event_type = 'Lock'")" != 0 ]
}

launch_clockless() {
	start_manager manager "$@" # makes the schema
	stop manager
	hold heartbeats 'lock table managers in share mode'
	launch_manager manager "$@"
}
