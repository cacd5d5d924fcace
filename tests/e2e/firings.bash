# shellcheck shell=bash
# Schedules that are written by SQL, and what became of their firings, for the end-to-end tests that source this file.
# SQL, because commands cannot create missed times, or changes between the read of a schedule and its firing.

# Sets up an empty database with Reeve's tables, without a manager.
tables_only() {
	start_postgres
	start_manager
	stop manager
}

# Creates a schedule that is due. It submits a task of the type `nothing`, unless the columns define something else.
schedule() { # NAME COLUMN VALUE…: values as SQL has them
	local name=$1 columns values="'$1'" spec='{"type": "nothing"}'
	columns=name
	shift
	while [ $# -gt 0 ]; do
		columns+=", $1" values+=", $2"
		case $1 in spec | queue_action) spec= ;; esac
		shift 2
	done
	[ -z "$spec" ] || columns+=', spec' values+=", '$spec'"
	case $columns in *next_at*) ;; *) columns+=', next_at' values+=', now()' ;; esac
	case $columns in *start_at*) ;; *) columns+=', start_at' values+=', now()' ;; esac
	sql "insert into schedules ($columns) values ($values)"
	sql "select pg_notify('reeve_notify', 'schedules')" >"$DIR/null"
}

# Prints the outcomes of a schedule's firings, in order: "OUTCOME OUTCOME …".
outcomes() { # NAME
	sql "select string_agg(outcome, ' ' order by r.id) from schedule_runs r join schedules s on s.id = schedule_id where name = '$1'"
}

# Prints the notes of its runs, one on each line.
notes() { # NAME
	sql "select note from schedule_runs r join schedules s on s.id = schedule_id where name = '$1' order by r.id"
}

wait_outcomes() { # NAME OUTCOMES
	wait_until 60 "[[ \$(outcomes $1) = '$2' ]]"
}

tasks_of() { # NAME: how many tasks it has submitted
	sql "select count(*) from all_tasks where source = 'schedule $1'"
}
