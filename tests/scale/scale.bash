# shellcheck shell=bash
# For the measurements here: a private PostgreSQL in a temporary folder, filled by load.sql, and a Release build. Takes $TOP, $WAITING
# and $ENDED. At the end of the script all its processes and files are gone.
export LC_ALL=C.UTF-8
umask 022
export CODE=0

say() {
	printf '%s\n' "$*" >&2
}

(cd "$TOP" && deploy/build >&2)
for bin in $(pg_config --bindir 2>/dev/null) /usr/lib/postgresql/*/bin; do
	[ ! -x "$bin/initdb" ] || PG=$bin
done
RUN=$(mktemp -d "${TMPDIR:-/tmp}/reeve-scale.XXXXXX")
chmod 755 "$RUN"
AS=()
[ "$(id -u)" != 0 ] || AS=(setpriv --reuid=postgres --regid="$(id -g postgres)" --clear-groups --)

finish() {
	jobs -p | xargs -r kill 2>/dev/null || true
	wait || true
	"${AS[@]}" "$PG/pg_ctl" -D "$RUN/pg/data" -m immediate -w stop >/dev/null 2>&1 || true
	cd /
	rm -rf "$RUN"
}
trap finish EXIT

mkdir "$RUN/pg"
[ "$(id -u)" != 0 ] || chown postgres "$RUN/pg"
cd "$RUN/pg"
"${AS[@]}" "$PG/initdb" -D data -U postgres -A trust -E UTF8 --locale=C >/dev/null
"${AS[@]}" tee -a data/postgresql.conf >/dev/null <<-END
	listen_addresses = ''
	unix_socket_directories = '$RUN/pg'
	shared_buffers = $(awk '$1 == "MemTotal:" { print int($2 / 4096) }' /proc/meminfo)MB
	max_wal_size = 4GB
	synchronous_commit = off
	log_min_duration_statement = 0
	log_line_prefix = '%a '
END

postgres() { # start or stop
	"${AS[@]}" "$PG/pg_ctl" -D data -l log -m fast -w -t 600 "$1" >/dev/null
}

psql() {
	"$PG/psql" -XAtq -v ON_ERROR_STOP=1 -h "$RUN/pg" -U postgres "$@"
}

free_ports() { # two, below the range that outgoing connections take theirs from
	comm -23 <(shuf -i 28000-31999 -n 100 | sort) <(ss -Htan | awk '{ sub(/.*:/, "", $4); print $4 }' | sort -u) | shuf -n 2
}

fill() { # starts PostgreSQL and fills the database
	postgres start
	psql postgres -c 'create role reeve login' -c 'create database reeve owner reeve'
	"$TOP/build/bin/reeve-manager" --print-schema | "$PG/psql" -Xq -v ON_ERROR_STOP=1 -h "$RUN/pg" -U reeve reeve >/dev/null
	say "filling the tables: $WAITING tasks wait, $ENDED have ended"
	psql -v waiting="$WAITING" -v ended="$ENDED" -f "$TOP/tests/scale/load.sql" reeve
}
