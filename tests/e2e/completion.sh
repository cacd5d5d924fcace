#!/usr/bin/env bash
# Completion of command lines by bash, zsh and fish, and man pages; both come from the tables of options.
# quick
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tasks.bash"

start_postgres
start_manager
reeve submit nothing --queue mail --delay 1h >/dev/null
reeve submit invoice --queue 'odd:a b' --delay 1h >/dev/null
reeve schedule add nightly --manual report >/dev/null
batch=$(reeve batch open monthly --queue mail)
reeve metric put shop orders 1
start_worker helper
export PATH=$REEVE_BIN:$PATH

words() { # WORD…: what can follow, without explanations
	reeve completion words -- "$@" | cut -f 1 | paste -sd' '
}

test_commands_options_and_words_are_offered() {
	expect_eq 'queue' "$(words qu)"
	expect_match 'show logs list .*status progress describe set' "$(words '') $(words queue '')"
	expect_eq 'progress pause purge' "$(words queue p)"
	expect_eq '--queue' "$(words list --que)"
	expect_match '^--manager	addresses of the managers$' "$(reeve completion words -- --mana)"
	expect_eq '--limit' "$(words queue list --lim)$(words batch list --lim)"
	expect_eq 'hour type' "$(words stats --by '')"
	expect_eq '--by=hour' "$(words stats --by=h)"
	expect_eq 'hour' "$(words stats --by = h)" 'as bash splits it'
	expect_eq 'always' "$(words list --color al)"
	expect_eq 'bash zsh fish' "$(words completion '')"
	expect_eq '' "$(words submit --bulk '')" 'a file: the shell completes it'
	expect_eq '' "$(words nonsense '')"
}

test_names_and_ids_come_from_the_manager() {
	expect_eq 'mail' "$(words queue pause ma)"
	expect_eq 'mail odd:a b' "$(words queue pause '')"
	expect_eq 'mail' "$(words list --queue mai)"
	expect_eq '--queue=mail' "$(words list --queue=mai)"
	expect_eq 'mail' "$(words list -q mai)"
	expect_eq 'invoice nothing' "$(words submit '')"
	expect_eq 'nightly' "$(words schedule run '')"
	expect_eq "$batch$batch" "$(words batch close '')$(words submit --batch '')"
	expect_eq 'shop' "$(words metric list sh)"
	expect_eq 'helper' "$(words worker drain he)"
	expect_eq 'helper' "$(words audit --worker he)"
	expect_eq '1 2' "$(words cancel '' | tr ' ' '\n' | sort | paste -sd' ')"
	expect_eq '2' "$(words show 2)"
	expect_eq '2' "$(words cancel 1 2)"
	expect_eq 'mail' "$(REEVE_MANAGER=tcp://127.0.0.1:1 words --manager "${URL[manager]}" queue pause mai)"
	expect_eq 'mail' "$(REEVE_MANAGER=tcp://127.0.0.1:1 words queue pause "--manager=${URL[manager]}" mai)"
	# Without a manager there are none, soon.
	since=$SECONDS
	expect_eq '' "$(REEVE_MANAGER=tcp://127.0.0.1:1 words queue pause mai 2>/dev/null)"
	expect [ $((SECONDS - since)) -lt 15 ]
}

test_bash_completes() {
	cat >"$DIR/rc" <<-'END'
		source <(reeve completion bash)
		COMP_WORDS=(reeve queue pause '') COMP_CWORD=3
		_reeve
		printf '%s\n' "${COMPREPLY[@]}"
		complete -p reeve
	END
	expect_eq "$(printf '%s\n' mail 'odd:a b' 'complete -o default -F _reeve reeve')" "$(bash --norc "$DIR/rc")"
}

test_zsh_completes() {
	reeve completion zsh >"$DIR/_reeve"
	zsh -n "$DIR/_reeve"
	cat >"$DIR/rc" <<-END
		zmodload zsh/zpty
		zpty shell zsh -f -i
		zpty -w shell "PS1='> '; fpath=($DIR \$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word; stty -echo; echo ready"
		zpty -r -m shell line '*ready*'
		zpty -w -n shell \$'reeve queue pause mai\\t'
		zpty -r -m shell line '*mail*' && echo completed
	END
	expect_match 'completed' "$(timeout 60 zsh -f "$DIR/rc")"
}

test_fish_completes() {
	expect_eq "$(printf 'mail\nodd:a b')" "$(HOME=$DIR fish -c 'reeve completion fish | source; complete -C "reeve queue pause "' | cut -f 1)"
	expect_match '^--by	count ended attempts' "$(HOME=$DIR fish -c 'reeve completion fish | source; complete -C "reeve stats --b"')"
}

test_man_pages_are_valid_and_complete() {
	mkdir "$DIR/man"
	reeve man "$DIR/man"
	"$REEVE_BIN/reeve-manager" --print-man >"$DIR/man/reeve-manager.1"
	"$REEVE_BIN/reeve-worker" --print-man >"$DIR/man/reeve-worker.1"
	for page in "$DIR"/man/*.1; do
		expect_eq '' "$(groff -Kutf8 -man -Tutf8 -ww -z "$page" 2>&1)" "${page##*/}"
	done
	expect [ "$(find "$DIR/man" -name '*.1' | wc -l)" -gt 60 ]
	text=$(groff -Kutf8 -man -Tutf8 -P-cbou "$DIR/man/reeve-queue-set.1")
	for want in 'reeve-queue-set - change a queue' 'SYNOPSIS' '--retry-limit' '--manager URL'; do
		grep -qF -- "$want" <<<"$text" || fail "the page lacks $want: $text"
	done
	grep -qF -- '--metrics-open' <<<"$(groff -Kutf8 -man -Tutf8 -P-cbou "$DIR/man/reeve-manager.1")" || fail 'no --metrics-open'
	expect_fail 4 reeve man "$DIR/none"
	expect_match 'cannot write .*none/reeve.1: No such file' "$OUTPUT"
	expect_fail 2 reeve man
	expect_fail 2 reeve completion ksh
	expect_match '"ksh" is not a known shell; there are bash, zsh and fish' "$OUTPUT"
}

run_tests
