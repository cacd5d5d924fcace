# shellcheck shell=bash
# The harness of the end-to-end tests: real programs, a real PostgreSQL, real sockets.
#
# How to write a test. A suite is an executable file tests/e2e/NAME.sh. Its head says in one sentence what it is about,
# and can have marks, each on a line of its own:
#
#	`# quick`            `tests/run quick` includes the suite
#	`# timeout 600`      the suite has that many seconds instead of 300; in the background each process has them, of processor time
#	`# parts 3`          the tests run in three jobs, each of which executes the top of the file
#	`# measures time`    only one other suite runs at the same time: for limits that more load would break
#	`# alone`            no other suite runs at the same time
#	`# background`       the suite only computes, and gets the processor time that no other suite needs
#
# `# measures time` and `# alone` can also be directly above a test, and then apply to that test.
#
#	#!/usr/bin/env bash
#	# Tasks that fail: retried, or not.
#	# quick
#	. "$(dirname "$0")/lib.sh"
#
#	test_a_fatal_error_is_not_tried_again() {
#		start_postgres
#		start_manager
#		start_worker
#		id=$(reeve submit sh 'exit 65')
#		expect_fail 1 reeve wait "$id"
#		expect_eq dead "$(reeve show "$id" --json | jq -r .status)"
#		expect_eq 1 "$(sql "select attempt from task_history where id = $id")"
#	}
#
#	run_tests
#
# Each function named test_… is one test. The tests run in the order of the file, each in its own shell with `set -eu`:
# the first command that fails ends the test. The harness then ends everything that the test started, in reverse order.
# A test also fails if one of its processes does not stop within 30 s of SIGTERM, leaves children, or causes a sanitizer
# report. For a failed test the harness prints its output and the ends of all logs. Processes that are started at the
# top of the file, before run_tests, serve all its tests; a test that kills or restarts a process starts its own.
#
# `tests/run NAME` runs one suite, as does running the file itself; `tests/run NAME/WORDS` runs its tests with those
# words in their names. With REEVE_TEST_TRACE=1 the output of a test has every command.
#
# Variables and functions, in addition to plain bash and jq:
#	$TOP                         the project's folder
#	$DIR                         the test's own folder (removed afterwards); logs are in $DIR/log/NAME.log
#	start_postgres [--empty] [OPTION…]   starts a cluster with the database `reeve`, owned by the role `reeve`; sets
#	                             $CONNINFO. The database has Reeve's schema, as --print-schema prints it, and the
#	                             history's partitions; with --empty it has nothing. After stop_postgres it starts the
#	                             same cluster again
#	stop_postgres [immediate]    pg_ctl -m fast, or another mode
#	sql 'select …'               runs SQL as superuser on `reeve`, like `psql -XAtq -c`: columns separated by |, one row
#	                             on each line. Sessions are kept and used again, each time in the state of a new one;
#	                             with PGAPPNAME set it runs psql, in a session of its own
#	sql_let_go                   closes the sessions that `sql` keeps: they prevent copies of a database
#	start_manager [NAME] [OPTION…]   starts a manager, and waits until it answers. NAME (default: `manager`) names its
#	                             log and its port: a manager with the same name listens there again. Its URL is
#	                             ${URL[NAME]}; REEVE_MANAGER is that of the manager started last
#	                             With TRANSPORT=tls+tcp it listens with TLS, by REEVE_TLS_CERT and the like
#	launch_manager …             the same without waiting
#	start_worker [NAME] [OPTION…]    starts a worker (default: `worker`), and waits until it is registered. Its
#	                             handlers are in $HANDLERS, by default `sh` (the details are a shell script), `echo`,
#	                             `sha256` and `nothing`
#	launch_worker …              the same without waiting
#	handlers <<END               replaces $HANDLERS
#	start NAME COMMAND…          starts any other program in the background
#	pid NAME                     prints its process id
#	signal NAME SIGNAL           sends it a signal
#	stop NAME [SIGNAL]           sends SIGTERM (or another signal) and waits for its end; sets $STATUS to its exit code
#	ended NAME [SECONDS]         waits for its end without a signal; sets $STATUS to its exit code
#	kill_manager [NAME]          stop NAME KILL; so does kill_worker [NAME]
#	end_lease WORKER             lets the lease of a dead worker end soon
#	reeve …                      runs the command, on REEVE_MANAGER
#	free_port                    prints an unused port
#	wait_until SECONDS 'CONDITION'   evaluates the condition repeatedly until it succeeds
#	expect_eq WANT GOT [WHAT]    expect_match REGEX TEXT [WHAT]    expect_no_match …
#	expect_fail CODE COMMAND…    expects that the command exits with that code; sets $OUTPUT to its output
#	expect COMMAND…              expects that the command succeeds (for conditions, where `set -e` prints too little)
#	fail MESSAGE                 ends the test as failed
#	note TEXT                    writes a line to the test's output
#	as_user COMMAND…             runs a command as an ordinary user ($USER_NAME): `nobody` when the tests run as root

if [ -z "${REEVE_TEST_RUN:-}" ]; then # started directly: tests/run creates what a suite needs
	exec "$(dirname "$0")/../run" "$(basename "$0" .sh)"
fi
set -eEuo pipefail
shopt -s inherit_errexit

SUITE=$(basename "$0" .sh)
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# The statements as managers send them.
STATEMENTS=${REEVE_BIN%/bin}/generated/sql/statements
CONNINFO='' OUTPUT='' STATUS='' PGDIR='' SQL_SERVER=''
declare -A PIDS=() BORN=() PORT=() URL=()
STARTED=() # names, in the order of starting
if [ "$(id -u)" = 0 ]; then USER_NAME=nobody; else USER_NAME=$(id -un); fi

new_folder() { # DIR: what follows happens there
	DIR=$1
	HANDLERS=$DIR/handlers.ini
	REPORTS=$DIR/sanitizer # a file for each process that had something to report
	mkdir -p "$DIR/log" "$DIR/home" "$REPORTS"
	chmod 1777 "$REPORTS"
	export npm_config_cache=${npm_config_cache:-$HOME/.npm} HOME=$DIR/home REEVE_TEST_DIR=$DIR
	# Report abort() as well, so that a failed assertion is noticed.
	export ASAN_OPTIONS="detect_leaks=1:handle_abort=1:exitcode=97:log_path=$REPORTS/report"
	export UBSAN_OPTIONS="print_stacktrace=1:log_path=$REPORTS/report"
	export TSAN_OPTIONS="exitcode=97:log_path=$REPORTS/report"
}

# ---- failures ----

note() {
	printf '%s\n' "$*" >&2
}

where() { # where in the suite's own file we are
	local i
	for ((i = 1; i < ${#BASH_SOURCE[@]}; i++)); do
		if [ "$(basename "${BASH_SOURCE[i]}")" = "$SUITE.sh" ]; then
			printf '%s.sh:%s' "$SUITE" "${BASH_LINENO[i - 1]}"
			return
		fi
	done
}

fail() {
	note "$(where): $*"
	trap - ERR
	exit 1
}

on_error() { # STATUS COMMAND
	note "$(where): exit code $1 of: $2"
}

expect_eq() { # WANT GOT [WHAT]
	[ "$1" = "$2" ] || fail "${3:-not equal}: wanted '$1', got '$2'"
}

expect_match() { # REGEX TEXT [WHAT]
	[[ $2 =~ $1 ]] || fail "${3:-no match}: nothing like '$1' in '$2'"
}

expect_no_match() { # REGEX TEXT [WHAT]
	! [[ $2 =~ $1 ]] || fail "${3:-a match}: something like '$1' in '$2'"
}

expect_fail() { # CODE COMMAND…
	local want=$1 got=0 TO_FAIL=$1
	shift
	OUTPUT=$("$@" 2>&1) || got=$?
	[ "$got" = "$want" ] || fail "exit code of '$*': wanted $want, got $got; it said: $OUTPUT"
}

expect() { # COMMAND…
	"$@" || fail "exit code $? of: $*"
}

wait_until() { # SECONDS CONDITION
	local end=$((SECONDS + $1 + 1)) since=${EPOCHREALTIME/./}
	until (trap - ERR && eval "$2") 2>/dev/null; do
		[ "$SECONDS" -lt "$end" ] || fail "not within $1 s: $2"
		pause_since "$since"
	done
}

# Sleeps between two checks for an eighth of the time waited so far, limited to 10 to 100 ms. So an early change is seen
# at once, and a long wait costs little.
pause_since() { # MICROSECONDS, as of $EPOCHREALTIME
	local us=$(((${EPOCHREALTIME/./} - $1) / 8))
	us=$((us < 10000 ? 10000 : us > 100000 ? 100000 : us))
	printf -v us '0.%06d' $us
	pause "$us"
}

pause() { # SECONDS: sleeps without a process for it; nobody ever writes to that pipe
	read -rt "$1" <>"$SUITE_DIR/pause" || true
}

. "$TOP/tests/e2e/processes.bash"

# ---- PostgreSQL ----

start_postgres() { # [--empty] [OPTION…]
	local empty=
	if [ "${1:-}" = --empty ]; then
		empty=yes
		shift
	fi
	if [ -z "$PGDIR" ]; then
		PGDIR=$DIR/postgres
		cp -a --reflink=auto "$REEVE_TEST_RUN/template" "$PGDIR"
		CONNINFO="host=$PGDIR user=reeve dbname=reeve"
		SQL_SERVER=sql-$TEST_NUMBER
	fi
	start postgres as "$REEVE_TEST_PG_USER" "$REEVE_TEST_PG_BIN/postgres" -D "$PGDIR" -k "$PGDIR" "$@"
	alive "$SQL_SERVER" || start "$SQL_SERVER" "$REEVE_BIN/sql-server" "$PGDIR/.sql" \
		"host=$PGDIR user=postgres dbname=reeve options='-c search_path=reeve,public' application_name=sql"
	wait_until 60 'sql "select 1" >/dev/null'
	[ -n "$empty" ] || drop_yesterday
	[ -z "$empty" ] || sql_let_go
	[ -z "$empty" ] || printf '%s;\n' 'drop database reeve' 'create database reeve owner reeve' |
		"$REEVE_TEST_PG_BIN/psql" -Xq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d postgres
}

# The template may be of the day before. Its oldest partition of the history is over then, and would be archived.
drop_yesterday() {
	local today
	TZ=UTC printf -v today '%(%Y%m%d)T' -1
	[ "$today" -le "$REEVE_TEST_DAY" ] || sql "drop table if exists task_history_$REEVE_TEST_DAY"
}

stop_postgres() { # [MODE]
	(as "$REEVE_TEST_PG_USER" "$REEVE_TEST_PG_BIN/pg_ctl" -D "$PGDIR" -m "${1:-fast}" -w stop) >>"$DIR/log/pg_ctl.log"
	ended postgres
}

sql() {
	if [ -n "${PGAPPNAME:-}" ]; then
		PGOPTIONS='-c search_path=reeve,public' plain_sql "$1"
	else
		"$REEVE_BIN/sql" "$PGDIR/.sql" "$1"
	fi
}

plain_sql() { # SQL: by a superuser's session as it is by default, without Reeve's schema in its search_path
	"$REEVE_TEST_PG_BIN/psql" -XAtq -v ON_ERROR_STOP=1 -h "$PGDIR" -U postgres -d reeve -c "$1"
}

sql_let_go() {
	"$REEVE_BIN/sql" "$PGDIR/.sql"
}

# ---- Reeve ----

# Most statements of the history are planned for each of its partitions. With few of them a test takes half of
# PostgreSQL's time; suites about the history itself set the default.
HISTORY_DAYS=1

launch_manager() { # [NAME] [OPTION…]
	local name=manager
	case ${1:--} in -*) ;; *) name=$1 && shift ;; esac
	PORT[$name]=${PORT[$name]:-$(free_port)}
	URL[$name]=${TRANSPORT:-tcp}://127.0.0.1:${PORT[$name]}
	export REEVE_MANAGER=${URL[$name]}
	start "$name" "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "${URL[$name]}" --callback-private \
		--history-days "$HISTORY_DAYS" "$@"
}

start_manager() { # [NAME] [OPTION…]
	local name=manager end=$((SECONDS + 61)) since=${EPOCHREALTIME/./}
	case ${1:--} in -*) ;; *) name=$1 ;; esac
	launch_manager "$@"
	# The command itself waits for a manager that does not listen yet.
	until timeout 10 "$REEVE_PLAIN" --manager "${URL[$name]}" --connect-timeout 2s stats >/dev/null 2>&1; do
		alive "$name" || fail "$name has ended; its log: $(tail -n 5 "$DIR/log/$name.log")"
		[ "$SECONDS" -lt "$end" ] || fail "$name does not answer within 60 s"
		pause_since "$since"
	done
}

kill_manager() { # [NAME]
	stop "${1:-manager}" KILL
}

handlers() {
	cat >"$HANDLERS"
}

default_handlers() { # unless the test has its own
	[ -e "$HANDLERS" ] || handlers <<-END
		[handler sh]
		exec = /bin/bash
		[handler echo]
		exec = /bin/cat
		[handler sha256]
		exec = /usr/bin/sha256sum
		[handler nothing]
		exec = /bin/true
	END
}

launch_worker() { # [NAME] [OPTION…]
	local name=worker
	case ${1:--} in -*) ;; *) name=$1 && shift ;; esac
	default_handlers
	start "$name" "$REEVE_BIN/reeve-worker" --manager "$REEVE_MANAGER" --handlers "$HANDLERS" --name "$name" "$@"
}

start_worker() { # [NAME] [OPTION…]
	local name=worker end=$((SECONDS + 61)) since=${EPOCHREALTIME/./} before
	case ${1:--} in -*) ;; *) name=$1 ;; esac
	before=$(worker_incarnation "$name")
	launch_worker "$@"
	until [ "$(worker_incarnation "$name")" -gt "$before" ]; do
		alive "$name" || fail "$name has ended; its log: $(tail -n 5 "$DIR/log/$name.log")"
		[ "$SECONDS" -lt "$end" ] || fail "$name is not registered within 60 s"
		pause_since "$since"
	done
}

worker_incarnation() { # NAME: its latest one, 0 if it was never there
	sql "select coalesce(max(id), 0) from workers where name = '$1'"
}

kill_worker() { # [NAME]
	stop "${1:-worker}" KILL
}

end_lease() { # WORKER
	sql "update workers set lease_ms = 500 where name = '$1' and gone_at is null"
}

# Runs the command. Start and end of the build with sanitizers take three times the processor time of all the rest. So it
# runs the first call in the whole run with the same words and options, every call with an invalid command line
# (expect_fail 2), the first one of a suite that fails in another way, and `reeve dev`. Other calls run the build
# without sanitizers.
reeve() {
	local word shape="${*:1:2} "
	for word in "${@:3}"; do
		case $word in -*) shape+=${word%%=*} ;; esac
	done
	shape=${shape//[^a-z-]/}
	if [ -n "${TO_FAIL:-}" ]; then
		shape=$SUITE_DIR/sanitized/${shape:0:200}
	else
		shape=$REEVE_TEST_RUN/sanitized/${shape:0:200}
	fi
	if [ "${TO_FAIL:-}" = 2 ] || [ "${1:-}" = dev ] || [ ! -e "$shape" ]; then
		: >"$shape"
		"$REEVE_BIN/reeve" "$@"
	else
		"$REEVE_PLAIN" "$@"
	fi
}

# Runs gojq, which has the same language, and sorts the members of objects: jq 1.6 takes 25 ms at its start to read its
# own definitions.
jq() {
	gojq "$@"
}

# ---- runs of tests ----

# Prints input for psql, after which PostgreSQL reports the plan of each statement, including those in functions.
explain_what_follows() {
	echo "load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on;"
	echo "set auto_explain.log_analyze = on; set auto_explain.log_timing = off; set client_min_messages = log;"
}

show_test() { # NAME: everything that helps to see why it failed
	local file
	for file in "$DIR"/log/*.log "$REPORTS"/*; do
		[ -s "$file" ] || continue
		note "---- $1: ${file#"$DIR"/}"
		tail -n 60 "$file" >&2
	done
	note "---- $1: output" # last, because what shows only the end must show the failed assertion
	cat "$DIR/output" >&2
	note "----"
}

keep_test() { # NAME: all that is left of a failed one, and the end of its output, which tests/run prints
	local kept=$REEVE_TEST_KEPT/${1#test_}
	mkdir -p "$kept"
	cp -a "$DIR/output" "$DIR/log" "$REPORTS" "$kept"
	tail -n 25 "$DIR/output" >"$kept/end"
}

hundredths_used() { # of a second of CPU, by the processes of the tests that have ended
	local stat
	read -ra stat <"/proc/$$/stat"
	echo $((stat[15] + stat[16]))
}

run_test() { # NAME
	local status=0 begin=$SECONDS name=${1#test_} took cpu said
	cpu=$(hundredths_used)
	new_folder "$SUITE_DIR/$((++TEST_NUMBER))"
	RUNNING=$1
	set +e
	trap - ERR
	(
		set -e
		STARTED=()
		trap 'status=$?; trap - EXIT ERR; end_everything || status=1; exit $status' EXIT
		trap 'exit 143' TERM INT HUP
		trap 'on_error $? "$BASH_COMMAND"' ERR
		[ -z "${REEVE_TEST_TRACE:-}" ] || set -x
		"$1"
	) >"$DIR/output" 2>&1 </dev/null
	status=$?
	set -e
	trap 'on_error $? "$BASH_COMMAND"' ERR
	RUNNING=
	cpu=$(($(hundredths_used) - cpu))
	took=$((SECONDS - begin)) said="$((SECONDS - begin)) s, CPU $((cpu / 100)).$((cpu % 100 / 10)) s"
	if compgen -G "$REPORTS/*" >/dev/null; then
		echo "a sanitizer reported something" >>"$DIR/output"
		status=1
	fi
	echo "$took $SUITE/$name" >>"$SUITE_DIR/times"
	if [ $status = 0 ]; then
		echo "passed $1" >>"$SUITE_DIR/results"
		note "  ok     ${name//_/ } ($said)"
	else
		echo "failed $1" >>"$SUITE_DIR/results"
		FAILED=1
		show_test "$1"
		keep_test "$1"
		note "  FAILED ${name//_/ } ($said)"
	fi
	find "$DIR" -mindepth 1 -maxdepth 1 ! -name output ! -name log ! -name sanitizer -exec rm -rf {} +
}

run_tests() {
	local name
	for name in $REEVE_TEST_NAMES; do run_test "$name"; done
	exit $FAILED
}

end_suite() {
	local status=$?
	trap - EXIT ERR
	if [ -n "$RUNNING" ]; then # the suite's time is over
		show_test "$RUNNING"
		keep_test "$RUNNING"
	fi
	new_folder "$SUITE_DIR"
	end_everything || status=1
	if compgen -G "$REPORTS/*" >/dev/null; then
		note "a sanitizer reported something"
		status=1
	fi
	if [ $status != 0 ] && [ $FAILED = 0 ]; then # no test failed
		touch "$DIR/output"
		show_test "$SUITE"
		keep_test "$SUITE"
	fi
	exit $status
}

TEST_NUMBER=0 FAILED=0 RUNNING=
unset XDG_DATA_HOME XDG_CONFIG_HOME REEVE_MANAGER
SUITE_DIR=$REEVE_TEST_SUITE_DIR
mkfifo "$SUITE_DIR/pause"
mkdir "$SUITE_DIR/sanitized"
new_folder "$SUITE_DIR"
trap end_suite EXIT
trap 'exit 143' TERM INT HUP
trap 'on_error $? "$BASH_COMMAND"' ERR
