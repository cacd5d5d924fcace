# shellcheck shell=bash
# Batches, for the end-to-end tests that source this file.

batch() { # ID FIELD…: those fields of the batch in one line
	local id=$1
	shift
	reeve batch report "$id" --json | jq -r "[.batch | $(printf '.%s,' "$@" | sed 's/,$//')] | join(\" \")"
}

totals() { # ID: state, submitted, pending, completed, failed
	batch "$1" state submitted pending completed failed
}

wait_batch() { # SECONDS ID: until it has ended
	wait_until "$1" "[ \"\$(sql 'select phase from batches where id = $2')\" = ended ]"
}

set_queue() { # NAME COLUMN=VALUE,…: settings, which the manager (started again) knows
	sql "insert into queues (name) values ('$1') on conflict do nothing; update queues set $2 where name = '$1'"
	stop manager
	start_manager
}

# Prints the details of the callback tasks (type `told`), one per line, of all events or of EVENT. No handler of that
# type needs to run.
told() { # [EVENT]
	sql "select details from all_tasks where type = 'told' order by id" | jq -c "select(.event == \"${1:-}\" or \"${1:-}\" == \"\")"
}

# Expects the counters of all batches, or of batch ID, to agree with their tasks.
expect_consistent() { # [ID]
	expect_eq '' "$(sql "select b.id, b.submitted, b.pending, b.completed, b.failed, t.*
		from batches b cross join lateral (
			select count(*) as n, count(*) filter (where a.status in ('queued', 'executing', 'failed')) as live,
				count(*) filter (where a.status = 'completed') as good, count(*) filter (where a.status in ('dead', 'cancelled')) as bad
			from all_tasks a where a.batch_id = b.id and a.id is distinct from b.entry_id and a.id is distinct from b.exit_id) t
		where (b.submitted, b.pending, b.completed, b.failed) is distinct from (t.n, t.live, t.good, t.bad)
			and b.id = coalesce(nullif('${1:-}', '')::bigint, b.id)")"
}
