#!/usr/bin/env bash
# Inputs of any bytes: a short run of the fuzz targets, with the same inputs each time (tests/fuzz/run is the long one).
# quick
. "$(dirname "$0")/lib.sh"

"$TOP/tests/fuzz/inputs" "$SUITE_DIR/inputs"

fuzz() { # TARGET COUNT
	REEVE_FUZZ_INPUT=$DIR/input "$REEVE_BIN/fuzz-$1" "$SUITE_DIR/inputs/$1" "$2" ||
		fail "it fails for this input: $(base64 -w 0 "$DIR/input")"
}

test_json_of_any_kind_is_read_or_refused() {
	fuzz json 50000
}

test_connections_with_any_bytes_end_without_traces() {
	fuzz http 10000
}

run_tests
