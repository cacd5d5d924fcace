# shellcheck shell=bash
# Runs a command that sees a disk of its own of so many MiB at $DIR/disk.
with_disk() { # MIB COMMAND…
	local changed=()
	mkdir -p "$DIR/disk"
	if [ "$(id -u)" = 0 ]; then
		# In a chroot the root is no mount point, whose propagation unshare could change.
		mountpoint -q / || changed=(--propagation unchanged)
		# shellcheck disable=SC2016
		exec unshare -m "${changed[@]}" bash -c 'mount -t tmpfs -o size="$1"m,mode=755 none "$2"; exec "${@:3}"' - "$1" "$DIR/disk" "${@:2}"
	fi
	# shellcheck disable=SC2016
	exec unshare -Urm bash -c 'mount -t tmpfs -o size="$1"m none "$2"; exec unshare -U --map-user="$3" --map-group="$4" "${@:5}"' \
		- "$1" "$DIR/disk" "$(id -u)" "$(id -g)" "${@:2}"
}
