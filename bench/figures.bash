# shellcheck shell=bash
# What bench/run prints of the figures in $DIR/figures: medians of all rounds, ratios, changes; in JSON, with the
# machine. Sourced by bench/run.

# Reads lines "NAME A B". Prints the geometric mean of the ratios A ÷ B of the rounds as NAME, with its standard error,
# and their median, with its standard error by a bootstrap. Ratios within a round compare figures that were measured
# within seconds of each other, while the speed of the machine changes within minutes.
paired() {
	awk '
		function median(v, n,  i, j, t) {
			for (i = 2; i <= n; i++)
				for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
			return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
		}
		NR == FNR { value[$1, ++n[$1]] = $2; next }
		{
			m = sum = squares = 0
			for (i = 1; i <= n[$2] && i <= n[$3]; i++) {
				if (value[$2, i] <= 0 || value[$3, i] <= 0) continue
				r[++m] = log(value[$2, i] / value[$3, i])
				sum += r[m]; squares += r[m] * r[m]
			}
			if (!m) next
			printf "%s %.3f ratio\n", $1, exp(sum / m)
			if (m > 1) {
				variance = (squares - sum * sum / m) / (m - 1)
				printf "%s_error %.3f ratio\n", $1, exp(sum / m) * sqrt((variance > 0 ? variance : 0) / m)
			}
			if (m > 2) {
				srand(1)
				total = square = 0
				for (k = 0; k < 1000; k++) {
					for (i = 1; i <= m; i++) s[i] = r[1 + int(rand() * m)]
					x = median(s, m)
					total += x; square += x * x
				}
				for (i = 1; i <= m; i++) s[i] = r[i]
				x = median(s, m)
				variance = square / 1000 - total * total / 1000000
				printf "%s_median %.3f ratio\n", $1, exp(x)
				printf "%s_median_error %.3f ratio\n", $1, exp(x) * sqrt(variance > 0 ? variance : 0)
			}
		}' "$DIR/figures" -
}

# Prints lines "NAME A B" for the change of each figure from the other revision to this one, with TLS, and with tokens.
changes() {
	awk '{ seen[$1] = 1 } END { for (name in seen) {
			if (("before_" name) in seen) print name "_change", name, "before_" name
			if (("tls_" name) in seen) print name "_with_tls", "tls_" name, name
			if (("tokens_" name) in seen) print name "_with_tokens", "tokens_" name, name } }' \
		"$DIR/figures" | sort
}

# Prints the medians of all rounds, and the ratios and differences that follow from them.
summarize() {
	sort -s -k1,1 "$DIR/figures" | awk '
		function settle(  i, j, t) {
			for (i = 2; i <= n; i++)
				for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
			if (n) print name, (n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2), unit
			n = 0
		}
		$1 != name { settle() }
		{ name = $1; unit = $3; v[++n] = $2 + 0 }
		END { settle() }' >"$DIR/medians"
	awk '
		{ value[$1] = $2 }
		function ratio(name, a, b) {
			if ((a in value) && (b in value) && value[b] > 0) printf "%s %.3f ratio\n", name, value[a] / value[b]
		}
		END {
			kind = ("floor_reference_1_drain" in value) ? "reference" : "own"
			ratio("drain_ratio", "drain", "floor_" kind "_1_drain")
			ratio("drain_again_ratio", "drain_again", "floor_" kind "_1_drain_again")
			ratio("e2e_ratio", "e2e", "floor_" kind "_1_cycle")
			ratio("e2e_single64_ratio", "e2e_single64", "floor_" kind "_1_cycle")
			ratio("submit_ratio", "submit_bulk", "floor_" kind "_1_insert")
			ratio("latency_p50_commits", "latency_p50", "commit_p50")
			ratio("handlers_stdio_vs_exec", "handlers_stdio", "handlers_exec")
			if (("latency_p50" in value) && ("commit_p50" in value))
				printf "latency_p50_beyond_2_commits %.3f ms\n", value["latency_p50"] - 2 * value["commit_p50"]
		}' "$DIR/medians" >"$DIR/ratios"
	changes | paired >>"$DIR/ratios"
	if wanted scale; then
		scale_ratios | paired >>"$DIR/ratios"
	fi
	if wanted growth; then
		growth_ratios | paired >>"$DIR/ratios"
	fi
	cat "$DIR/medians" "$DIR/ratios"
}

json() {
	jq -Rn --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
		--argjson cores "$(nproc)" \
		--argjson memory "$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)" \
		--arg kernel "$(uname -sr)" \
		--arg disk "$(findmnt -nro SOURCE,FSTYPE --target "$DIR")" \
		--arg system "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" \
		--arg postgresql "$(psql -qXAtc 'show server_version')" \
		--arg settings "${SETTINGS[*]}" \
		--arg version "$(git -C "$TOP" describe --always --dirty 2>/dev/null || true)" \
		--arg date "$(date -u +%Y-%m-%d)" \
		--arg load "$LOAD" \
		--argjson rounds "$ROUNDS" --argjson tasks "$TASKS" --arg workers "$PROCESSES $CONCURRENCY $PREFETCH" \
		--rawfile all "$DIR/figures" '
		{ machine: { cpu: $cpu, cores: $cores, memory_mib: $memory, kernel: $kernel, system: $system, disk: $disk,
			postgresql: $postgresql, settings: ($settings | split(" ")), load_before: ($load | tonumber) },
		  reeve: $version, date: $date, rounds: $rounds, tasks: $tasks,
		  workers: ($workers | split(" ") | map(tonumber) | { processes: .[0], concurrency: .[1], prefetch: .[2] }),
		  figures: (reduce (inputs | split(" ")) as $f ({}; .[$f[0]] = { value: ($f[1] | tonumber), unit: $f[2] })),
		  runs: (reduce ($all | split("\n")[] | select(. != "") | split(" ")) as $f ({}; .[$f[0]] += [$f[1] | tonumber])) }'
}
