# shellcheck shell=bash
# Managers whose callers need access tokens. A suite that sources this has a manager on $TCP and $IPC.
. "$(dirname "${BASH_SOURCE[0]}")/tasks.bash"

start_postgres
PORT[manager]=$(free_port)
TCP=tcp://127.0.0.1:${PORT[manager]} IPC=ipc://$DIR/socket
URL[manager]=$TCP
LOG=$DIR/log/manager.log # the tests have folders of their own
export REEVE_MANAGER=$TCP
start manager "$REEVE_BIN/reeve-manager" --database "$CONNINFO" --listen "$TCP,$IPC" --socket-mode 0666 --auth required
wait_until 60 '"$REEVE_BIN/reeve" --manager "$IPC" stats >/dev/null'

admin() { # ARGUMENT…: as this user, on the ipc socket
	"$REEVE_BIN/reeve" --manager "$IPC" "$@"
}

with() { # TOKEN COMMAND…
	REEVE_ACCESS_TOKEN=$1 "${@:2}"
}
