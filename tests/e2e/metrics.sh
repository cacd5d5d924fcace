#!/usr/bin/env bash
# Metrics of applications, by category and name, and the managers' counters among them.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager other --name second
start_manager manager --name first

value() { # CATEGORY NAME
	reeve metric list "$1" --json | jq -r "select(.name == \"$2\").value"
}

test_metrics_are_put_changed_and_listed() {
	reeve metric put shop open-orders 17
	reeve metric put shop 'größe m³' 2.5e-3
	reeve metric put lager free -- -4
	expect_eq '17 0.0025 -4' "$(value shop open-orders) $(value shop 'größe m³') $(value lager free)"
	expect_eq 'lager/free shop/größe m³ shop/open-orders' "$(reeve metric list --json | jq -rs 'map(select(.category != "manager") | "\(.category)/\(.name)") | sort | join(" ")')"
	expect_eq 2 "$(reeve metric list shop --json | wc -l)"
	expect_match 'CATEGORY +NAME +VALUE +CHANGED +SOURCE.*shop +größe m³ +0.0025 .*shop +open-orders +17 +.*@' "$(reeve metric list shop)"
	# A put of the same value leaves `changed` as it is; a new value changes it.
	first=$(reeve metric list shop --json | jq -r 'select(.name == "open-orders") | "\(.changed) \(.updated)"')
	reeve metric put shop open-orders 17
	again=$(reeve metric list shop --json | jq -r 'select(.name == "open-orders") | "\(.changed) \(.updated)"')
	expect_eq "${first% *}" "${again% *}" 'changed'
	expect [ "${again#* }" \> "${first#* }" ]
	REEVE_MANAGER=${URL[other]} reeve metric put shop open-orders 18
	after=$(reeve metric list shop --json | jq -r 'select(.name == "open-orders") | "\(.changed) \(.updated)"')
	expect [ "${after% *}" \> "${again#* }" ]
	expect_eq 18 "$(sql "select value from metrics where category = 'shop' and name = 'open-orders'")"
	expect_eq '' "$(reeve metric list nothing --json)"
	expect_match '^no metrics$' "$(reeve metric list nothing 2>&1)"
	sql 'delete from metrics where manager_id is null'
}

test_integers_are_exact() {
	reeve metric put exact big 9223372036854775807
	reeve metric put exact small -- -9223372036854775808
	reeve metric put exact double 0.1
	expect_match 'big +9223372036854775807 .*small +-9223372036854775808 ' "$(reeve metric list exact)"
	expect_match '"integer":9223372036854775807[,}]' "$(reeve metric list exact --json | grep big)"
	expect_no_match integer "$(reeve metric list exact --json | grep double)"
	expect_eq '9223372036854775807' "$(sql "select value from metrics where category = 'exact' and name = 'big'")"
	expect_eq '0.1' "$(sql "select value from metrics where category = 'exact' and name = 'double'")"
	sql "delete from metrics where category = 'exact'"
}

test_metrics_are_added_to() {
	expect_eq 1 "$(reeve metric add sums orders 1)"
	expect_eq 9007199254740993 "$(reeve metric add sums orders 9007199254740992)" # a double does not have it
	expect_eq 9007199254740990 "$(reeve metric add sums orders -- -3)"
	expect_eq 0.1 "$(reeve metric add sums double 0.1)"
	expect_eq 0.3 "$(reeve metric add sums double 0.2)" # in 15 digits
	reeve metric put sums big 9223372036854775807
	expect_fail 4 reeve metric add sums big 1
	expect_match 'the sum of metric "big" of category "sums" is not a 64-bit integer' "$OUTPUT"
	expect_eq 9223372036854775807 "$(sql "select value from metrics where category = 'sums' and name = 'big'")"
	expect_fail 4 reeve metric add manager x 1
	expect_fail 2 reeve metric add sums orders many
	# None is lost, at two managers.
	for n in $(seq 4); do
		start "adder-$n" bash -c 'for i in $(seq 25); do "$0" --manager "$1" metric add sums many 1 >/dev/null || exit; done' \
			"$REEVE_BIN/reeve" "$([ $((n % 2)) = 0 ] && echo "${URL[other]}" || echo "${URL[manager]}")"
	done
	for n in $(seq 4); do
		ended "adder-$n" 60
		expect_eq 0 "$STATUS" "adder-$n"
	done
	expect_eq 100 "$(value sums many)"
	sql "delete from metrics where category = 'sums'"
}

test_all_of_a_put_or_nothing_and_the_last_wins() {
	# Many puts at the same time, at both managers, in any order.
	for n in $(seq 8); do
		start "putter-$n" bash -c 'for i in $(seq 20); do "$0" --manager "$1" metric put race same "$2$i" || exit; done' \
			"$REEVE_BIN/reeve" "$([ $((n % 2)) = 0 ] && echo "${URL[other]}" || echo "${URL[manager]}")" "$n"
	done
	for n in $(seq 8); do
		ended "putter-$n" 60
		expect_eq 0 "$STATUS" "putter-$n"
	done
	expect_match '^[1-8]20$' "$(value race same)" 'the last of one caller'
	expect_eq 1 "$(reeve metric list race --json | wc -l)"
}

test_the_managers_counters_are_among_them() {
	id=$(reeve submit nothing --delay 1h)
	for name in first second; do
		wait_until 40 "[ \"\$(value manager $name/submitted)\" ]"
	done
	# The metrics show the same as a manager's `stats`, a little later.
	wait_until 60 '[ "$(value manager first/submitted)" = "$(reeve stats --json | jq -r ".counters[] | select(.name == \"submitted\").value")" ]'
	expect [ "$(value manager first/submitted)" -ge 1 ]
	expect_eq 0 "$(value manager second/submitted)"
	expect_eq "$(reeve stats --json | jq '.counters | length')" "$(reeve metric list manager --json | jq -r 'select(.name | startswith("first/")).name' | wc -l)"
	reeve cancel "$id" >/dev/null
	# Applications cannot write to that category.
	expect_fail 4 reeve metric put manager first/submitted 3
	expect_match 'metrics\[0\].category: "manager" is the category of the managers' "$OUTPUT"
	# Metrics of managers that stopped long ago are removed; those of running managers stay, however old they are.
	sql "insert into managers (name, hb_at, stopped) values ('gone', now() - interval '25 hours', true), ('resting', now() - interval '23 hours', true);
		insert into metrics (category, name, value, manager_id, updated)
		select 'manager', name || '/submitted', 1, id, now() - interval '30 days' from managers where name in ('gone', 'resting', 'first');" 2>/dev/null ||
		sql "insert into metrics (category, name, value, manager_id, updated)
			select 'manager', name || '/relic', 1, id, now() - interval '30 days' from managers where name in ('gone', 'resting', 'first')"
	start_manager third
	wait_until 60 "[ \"\$(sql \"select count(*) from metrics where name like 'gone/%'\")\" = 0 ]"
	expect [ "$(sql "select count(*) from metrics where name like 'first/%'")" -gt 10 ]
	stop third
}

test_long_lists_come_in_pages() {
	sql "insert into metrics (category, name, value) select 'page-' || n % 3, 'n' || n, n from generate_series(1, 2500) n"
	expect_eq 2500 "$(reeve metric list --json | jq -r 'select(.category | startswith("page-")).name' | sort -u | wc -l)"
	expect_eq 833 "$(reeve metric list page-0 --json | wc -l)"
	sql "delete from metrics where category like 'page-%'"
}

test_there_are_ten_thousand_at_most() {
	sql "delete from metrics where manager_id is null;
		insert into metrics (category, name, value) select 'full', 'n' || n, n from generate_series(1, 9995) n"
	for n in $(seq 20); do
		start "putter-$n" "$REEVE_BIN/reeve" --manager "$([ $((n % 2)) = 0 ] && echo "${URL[other]}" || echo "${URL[manager]}")" metric put full "new-$n" 1
	done
	good=0
	for n in $(seq 20); do
		ended "putter-$n" 60
		[ "$STATUS" != 0 ] || good=$((good + 1))
	done
	expect_eq 5 "$good" 'taken'
	expect_eq 10000 "$(sql 'select count(*) from metrics where manager_id is null')"
	begin=$EPOCHSECONDS
	expect_fail 4 reeve metric put full one-more 1
	[ $((EPOCHSECONDS - begin)) -lt 10 ] || fail 'it was tried again'
	expect_match 'there are 10000 metrics already, the maximum' "$OUTPUT"
	reeve metric put full n1 5 # those that are there
	expect_eq 5 "$(value full n1)"
	sql 'delete from metrics where manager_id is null'
}

test_invalid_input_is_refused() {
	long=$(printf '%0256d' 0)
	while IFS='|' read -r code want arguments; do
		eval "expect_fail $code reeve metric $arguments"
		expect_match "$want" "$OUTPUT" "$arguments"
	done <<-'END'
		2|reeve metric: the verb is missing|
		2|reeve metric: unknown verb "drop"; `reeve help metric` lists the verbs|drop x
		2|give a CATEGORY, a NAME and a VALUE|put shop orders
		2|give a CATEGORY, a NAME and a VALUE|put shop orders 1 2
		2|VALUE: "many" is not a number|put shop orders many
		2|VALUE: "" is not a number|put shop orders ''
		2|VALUE: "1x" is not a number|put shop orders 1x
		2|VALUE: " 1" is not a number|put shop orders ' 1'
		2|VALUE: "inf" is not a number|put shop orders inf
		2|VALUE: "nan" is not a number|put shop orders nan
		2|VALUE: "1e999" is not a number|put shop orders 1e999
		4|metrics.0..category is empty|put '' orders 1
		4|metrics.0..name is empty|put shop '' 1
		4|metrics.0..name.*255|put shop "$long" 1
		4|metrics.0..category.*255|put "$long" orders 1
		4|metrics.0..name.*control|put shop $'a\tb' 1
		4|metrics.0..name.*UTF-8|put shop $'a\xff' 1
		2|unexpected argument "b": give one category|list a b
		2|the category's name is empty|list ''
	END
	expect_eq '' "$(reeve metric list shop --json)"
	expect_match 'put +set a metric' "$(reeve metric --help)"
	expect_match 'Example' "$(reeve metric put --help)"
}

run_tests
