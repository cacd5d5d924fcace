# shellcheck shell=bash
# Programs with other clocks, by libfaketime.

FAKETIME_LIBRARY=/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1
[ -e "$FAKETIME_LIBRARY" ] || FAKETIME_LIBRARY=$(find /usr/lib -name libfaketime.so.1 2>/dev/null | head -n 1)

# The library asks for symbols at the first reading of a clock, and each that is missing is an allocation. The sanitizer
# must not read a clock within an allocation then, or a program waits for itself: it depended on the length of its path.
with_clock() { # SPEC COMMAND…
	ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0:allocator_release_to_os_interval_ms=-1 \
		LD_PRELOAD=$FAKETIME_LIBRARY FAKETIME=$1 "${@:2}"
}

off_by() { # SPEC COMMAND…: with a wall clock that far off; the monotonic one is left alone
	FAKETIME_DONT_FAKE_MONOTONIC=1 with_clock "$@"
}

at_rate() { # RATE COMMAND…: with clocks that all run so fast
	with_clock "+0 x$1" "${@:2}"
}
