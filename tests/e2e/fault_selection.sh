#!/usr/bin/env bash
# Which faults the driver of random faults (tests/faults/run) draws, and that it counts no fault without effect.
# quick
. "$(dirname "$0")/lib.sh"

driver() { # a Python program on standard input, with the driver's modules
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$TOP/tests/faults python3 -
}

# Twelve draws are about as many as a run of two minutes has time for.
test_a_short_run_has_each_kind_of_what_others_do() {
	driver <<-'END'
		import random
		from fault_kinds import KINDS, Deck
		from outside_faults import OUTSIDE
		for seed in range(50):
		    deck = Deck(random.Random(seed), list(KINDS))
		    draws = [deck.draw() for _ in range(12)]
		    alone = [kinds[0] for kinds in draws if len(kinds) == 1]
		    assert set(OUTSIDE) <= set(alone), (seed, set(OUTSIDE) - set(alone))
		    assert any(kind not in OUTSIDE for kinds in draws for kind in kinds), seed
		    assert not deck.owed
	END
}

test_a_kind_without_effect_is_drawn_again_and_reported() {
	driver <<-'END'
		import random
		from fault_kinds import Deck, TRIES
		from outside_faults import fetches_parked, rows_locked
		deck = Deck(random.Random(1), [rows_locked, fetches_parked])
		while deck.owed:
		    for kind in deck.draw():
		        deck.note(kind, "nothing to lock" if kind is rows_locked else "")
		assert deck.drawn == {rows_locked: TRIES, fetches_parked: 1}, deck.drawn
		assert deck.without_effect() == ["rows_locked"], deck.without_effect()
		deck.note(rows_locked, "")
		assert deck.without_effect() == [], deck.without_effect()
	END
}

test_time_that_other_processes_took_does_not_count() {
	driver <<-'END'
		import subprocess
		from own_time import NOISE, OwnTime
		def near(want, got):
		    assert abs(want - got) < 1e-6 * abs(want), (want, got)
		# Two processors have 200 ticks in a second. Columns: time in µs, ticks of the machine, of all processes, of the run.
		own = OwnTime()
		own.add(1e6, 1000, 500, 100)
		own.add(2e6, 1200, 700, 300)  # the run has it alone
		own.add(3e6, 1400, 720, 300)  # others take a tenth: within the error
		own.add(4e6, 1600, 870, 350)  # … half of it
		own.add(5e6, 1800, 1050, 380)  # … three quarters, and a tenth is idle
		own.add(6e6, 2000, 1050, 380)  # no process runs
		own.add(7e6, 2200, 1100, 500)  # figures that contradict each other
		own.add(8e6, 2400, 1200, 450)
		own.add(9e6, 2600, 1390, 540)  # others take half, and a twentieth is idle
		own.add(10e6, 2800, 1590, 640)  # … nothing is idle
		own.add(11e6, 3000, 1790, 840)  # they take nothing, but the run is catching up
		own.add(12e6, 3200, 1890, 840)  # … half, and half is idle
		own.add(13e6, 3400, 2090, 1040)  # … nothing, and nothing is idle
		assert own.between(0, 2.5e6) == 2.5e6
		assert own.between(1e6, 3e6) == 2e6
		near(1.5e6, own.between(2e6, 4e6))
		near(0.125e6, own.between(4.5e6, 5e6))
		near(0.5e6 + 0.25e6, own.between(3e6, 5e6))
		near(2e6, own.between(5e6, 7e6))
		near(0.5e6, own.between(7e6, 8e6))
		near(0.25e6, own.between(8e6, 11e6))
		near(0.5e6, own.between(11e6, 12e6))
		near(3e6, own.between(12e6, 15e6))  # then as in the last second
		# The run's own ticks: of its living processes, of children that it has reaped, and of ended orphans.
		busy = "import os, time\nwhile time.process_time() < 0.35: pass\n"
		own = OwnTime()
		begun = own.run_ticks()
		subprocess.run(["python3", "-c", busy], check=True)
		assert own.run_ticks() >= begun + 30
		orphan = busy + "print(1, flush=True)\nos.read(0, 1)"
		parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {orphan!r}])"
		parent = subprocess.Popen(["python3", "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
		parent.stdout.readline()
		assert own.run_ticks() >= begun + 60
		parent.kill()
		parent.wait()
		assert own.run_ticks() >= begun + 60
		parent.stdin.close()
		parent.stdout.read()  # until the orphan has ended
		assert own.run_ticks() >= begun + 60
		own.sample(1e6), own.sample(1.5e6), own.sample(2.5e6)
		assert own.wall == [1e6, 2.5e6] and own.last[0] > own.last[1] > 0, (own.wall, own.last)
	END
}

test_a_session_that_holds_nothing_reports_that() {
	start_postgres
	mkdir "$DIR/fixture"
	PG=$PGDIR driver <<-'END' | tee "$DIR/held"
		import os, time
		from fixture import Fixture
		from postgres import Holder, Postgres
		class Here:
		    folder, helpers, environment = os.environ["REEVE_TEST_DIR"] + "/fixture", [], {}
		    log_of = Fixture.log_of
		os.mkdir(Here.folder + "/log")
		postgres = Postgres(Here())
		postgres.data = os.environ["PG"]
		def held(statement, count):
		    holder = postgres.hold(statement, 1, count=count)
		    while holder.holds() is None:
		        time.sleep(0.02)
		    alive = holder.alive
		    holder.popen.wait()
		    print(holder.holds(), alive, holder.code)
		held("lock table tasks in share mode", "select 1")
		held("", "with rows as (select from locks where name = 'history' for update) select count(*) from rows")
		held("", "with rows as (select from tasks for update) select count(*) from rows")
		held("lock table nothing in share mode", "select 1")
	END
	expect_eq '1 True 0|1 True 0' "$(head -n 2 "$DIR/held" | paste -sd '|')"
	expect_match '^0 (True|False) 0$' "$(sed -n 3p "$DIR/held")"
	expect_match '^0 False [13]$' "$(sed -n 4p "$DIR/held")"
}

# Two workers are lost: the manager of one is frozen, the other is frozen itself.
test_a_worker_that_was_lost_is_excused_only_with_its_manager_and_a_lease_too_short_to_leave_it() {
	start_postgres
	start_manager one --heartbeat 500ms
	start_manager two --heartbeat 500ms
	REEVE_MANAGER=${URL[one]} start_worker with
	REEVE_MANAGER=${URL[two]} start_worker without
	signal one STOP
	signal without STOP
	sql 'update workers set lease_ms = 1500'
	wait_until 10 '[ "$(sql "select count(*) from workers where lost")" = 2 ]'
	wait_until 10 'grep -q "no answer from" "$DIR/log/with.log"'
	signal one CONT
	signal without CONT
	wait_until 10 '[ "$(sql "select count(*) from workers where not lost")" = 2 ]'
	sed -i '/no answer from/d' "$DIR/log/without.log" # a heartbeat may have been in flight when it was frozen
	# The answer to a Register was lost: the process has registered twice. And a worker of which nothing else is there.
	sql "with twice as (
		insert into workers (name, host, pid, lost, gone_at)
		select name, host, pid + n, true, now() from workers, generate_series(0, 1) n where name = 'with' and not lost returning id)
		insert into worker_events (worker_id, event) select id, 'lost' from twice"
	sql "update workers set name = 'silent' where name = 'with' and pid <> (select pid from workers where name = 'with' and not lost)"
	PG=$PGDIR ONE=${URL[one]} TWO=${URL[two]} driver <<-'END'
		import os
		from losses import judge, lost_workers
		from fixture import Fixture
		from postgres import Postgres
		class Here:
		    folder, environment, lease_ms, heartbeat_ms = os.environ["REEVE_TEST_DIR"], {}, 1500, 500
		    log_of = Fixture.log_of
		    urls_of = staticmethod(lambda manager: [os.environ[manager]])
		here = Here()
		here.postgres = Postgres(here)
		here.postgres.data = os.environ["PG"]
		def expect(want, silent, limit_s=60, before=(), ended=()):
		    got = judge(here, before, ended, silent, limit_s)
		    assert got == want, (got, want)
		expect((["with"], ["without", "silent"]), ["ONE"])
		expect(([], ["with", "without", "silent"]), ["TWO"])
		expect(([], ["with", "without", "silent"]), [])
		expect(([], ["with", "without", "silent"]), ["ONE"], limit_s=1)  # it came back too late
		expect(([], []), ["ONE"], before=lost_workers(here.postgres))
		without = [id for id, (name, _, _) in lost_workers(here.postgres).items() if name != "with"]
		expect((["with"], []), ["ONE"], ended=without)
		here.lease_ms = 2001
		expect(([], ["with", "without", "silent"]), ["ONE"])
	END
}

test_a_flood_is_refused_at_a_limit_that_is_named_or_was_none() {
	start_postgres
	start_manager manager --max-calls 400
	expect "$REEVE_BIN/fault-flood" --manager "$REEVE_MANAGER" --kind waits --count 600 --seconds 2
	expect_fail 1 "$REEVE_BIN/fault-flood" --manager "$REEVE_MANAGER" --kind waits --count 10 --seconds 1
	expect_match 'no Wait was refused at a limit' "$OUTPUT"
}

run_tests
