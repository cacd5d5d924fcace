#!/usr/bin/env bash
# bench/check_targets compares figures with the aims of bench/README.md, and names each aim that was missed or not measured.
# quick
. "$(dirname "$0")/lib.sh"

judge() { # EXIT-CODE PART…: of the figures in $DIR/figures, a round, and their summary; what it says is $OUTPUT
	local code=0 want=$1
	shift
	[ -e "$DIR/rounds" ] || cp "$DIR/figures" "$DIR/rounds"
	OUTPUT=$("$TOP/bench/check_targets" "$DIR/rounds" "$DIR/figures" "$@" 2>&1) || code=$?
	expect_eq "$want" "$code" "$OUTPUT"
}

figures_that_meet_all() { # each aim's own bound
	sed -n '/^### Aims/,/^## /s/^| \(`.*\) | at [a-z]* \([0-9.]*\).*/\2 \1/p' "$TOP/bench/README.md" | tr -d '`,' | tr '*' x |
		awk '{ for (i = 2; i <= NF; i++) print $i, $1, "unit" }'
}

PARTS=(drain latency handlers streams cold idle slots pair listed growth)

test_figures_that_meet_all_aims_are_good() {
	figures_that_meet_all >"$DIR/figures"
	[ "$(wc -l <"$DIR/figures")" -gt 30 ] || fail "few aims: $(cat "$DIR/figures")"
	judge 0 "${PARTS[@]}"
	expect_match "^0 aims missed of $(wc -l <"$DIR/figures") figures$" "$OUTPUT"
}

test_each_aim_that_is_missed_is_named() {
	figures_that_meet_all | sed 's/^idle_cpu_many 15/idle_cpu_many 15.1/; s/^drain_ratio 0.6/drain_ratio 0.59/;
		s/^listed_x_many 100/listed_list_many 100.2/' >"$DIR/figures"
	judge 1 "${PARTS[@]}"
	expect_eq 'drain_ratio idle_cpu_many listed_list_many' "$(awk '/^MISSED/ { print $2 }' <<<"$OUTPUT" | sort | xargs)"
	expect_match 'idle_cpu_many is 15.1 unit; the aim is at most 15' "$OUTPUT"
	judge 0 streams cold # the others were not measured
}

test_an_aim_without_its_figure_is_missed() {
	figures_that_meet_all | grep -v '^idle_lost_many ' >"$DIR/figures"
	judge 1 idle
	expect_match 'MISSED: idle_lost_many was not measured' "$OUTPUT"
	judge 2 nothing
}

# A median hides the round in which a worker was lost.
test_an_aim_of_none_holds_in_each_round() {
	figures_that_meet_all >"$DIR/figures"
	{ cat "$DIR/figures" && echo 'idle_lost_many 3 workers'; } >"$DIR/rounds"
	judge 1 idle
	expect_match 'MISSED: idle_lost_many is 3' "$OUTPUT"
}

test_a_ratio_is_missed_by_more_than_its_error() {
	figures_that_meet_all | sed 's/^streams_2_vs_1_1ms_p99 1 .*/streams_2_vs_1_1ms_p99 1.3 ratio/' >"$DIR/figures"
	judge 1 streams
	expect_match 'MISSED: streams_2_vs_1_1ms_p99' "$OUTPUT"
	echo 'streams_2_vs_1_1ms_p99_error 0.1 ratio' >>"$DIR/figures"
	judge 1 streams
	sed -i 's/_error 0.1/_error 0.2/' "$DIR/figures"
	judge 0 streams
	expect_match 'undecided: streams_2_vs_1_1ms_p99 is 1.3 ratio ± 0.2' "$OUTPUT"
}

run_tests
