# shellcheck shell=bash
# Locks of rows and tables, for the end-to-end tests that source this file.
#
#	hold NAME 'STATEMENT…'       runs the statements in a transaction of its own, and keeps it open
#	let_go NAME                  rolls it back
#	blocked ROLE                 whether a manager's connection with that role waits for a lock

hold() {
	PGAPPNAME=hold-$1 start "$1" sql "begin; $2; select pg_sleep(3600)"
	wait_until 20 "[ \"\$(sql \"select wait_event from pg_stat_activity where application_name = 'hold-$1'\")\" = PgSleep ]"
}

let_go() {
	sql "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hold-$1'" >/dev/null
	ended "$1"
}

blocked() {
	[ "$(sql "select count(*) from pg_stat_activity
		where application_name = 'reeve-manager $1' and wait_event_type = 'Lock'")" != 0 ]
}
