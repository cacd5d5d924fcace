# Reads the head of a statement, which maps parameters to fields of a request and columns to fields of a response.
#
#   -- takes ListMetricsRequest: category?, after_name, limit, @lease_ms
#   -- gives ListMetricsResponse.metrics: name, value, waiting.reason, .more
#
# `takes` names the parameters in their order. `NAME?` is null if the field has its default. `@NAME` is not a field of
# the request: see manager/store/bind.h. `A.B` is a field of the message A, `A[].B` the list of B of the messages A.
# `gives` names the columns in their order; `-` is one that is not read. Each row is a message in the list
# after the dot; a column whose name begins with a dot is a field of the response itself. `[NAME]` stands for the fields
# that the file columns/NAME lists, each with the text before `[` as its prefix; a line `{shown}` there stands for the
# columns of that list of lists.awk. `--   ` continues a line.
#
# Without `takes`, C code adds the parameters. Without `gives`, nobody reads the rows.
#
# Prints the members of struct sql_text, or with -v check=1 an expression that compiles only if all fields exist.
# -v columns=DIR is the folder of the lists.

function fail(problem) {
	printf "%s: %s\n", FILENAME, problem >"/dev/stderr"
	failed = 1
	exit 1
}

function descriptor(message, out) {
	out = message
	gsub(/[A-Z]/, "_&", out)
	return "&reeve__v1_" tolower(out) "__descriptor"
}

# Adds the fields of a list of columns. Returns the number of items.
function add_fields(list, prefix, items, n, columns, count, i) {
	count = split(list, columns, " ")
	for (i = 1; i <= count; i++)
		items[++n] = prefix columns[i] (types[columns[i]] == "timestamptz" ? "_us" : "")
	return n
}

# Splits a comma-separated list into items and expands each `[NAME]`. Returns the number of items.
function split_items(text, items, n, parts, i, k, count, prefix, file, line) {
	count = split(text, parts, /, */)
	n = 0
	for (i = 1; i <= count; i++) {
		if (!match(parts[i], /\[[a-z_]+\]$/)) {
			items[++n] = parts[i]
			continue
		}
		prefix = substr(parts[i], 1, RSTART - 1)
		file = columns "/" substr(parts[i], RSTART + 1, RLENGTH - 2)
		k = n
		while ((getline line <file) > 0)
			if (line ~ /^[{]/)
				n = add_fields(lists[substr(line, 2, length(line) - 2)], prefix, items, n)
			else if (line !~ /^#/ && line != "")
				items[++n] = prefix line
		close(file)
		if (n == k)
			fail("there are no columns in " file)
	}
	return n
}

function path_check(message, list, item, path) {
	path = item
	if (substr(path, 1, 1) == ".")
		path = substr(path, 2)
	else if (list != "")
		path = list "[0]." path
	gsub(/\./, "->", path)
	gsub(/\[\]/, "[0]", path)
	return " + sizeof(((Reeve__V1__" message " *)0)->" path ")"
}

/^-- (takes|gives) / {
	kind = $2
	text[kind] = substr($0, 10)
	next
}
kind != "" && /^--   / {
	text[kind] = text[kind] " " substr($0, 6)
	next
}
{ kind = "" }
!/^--/ {
	line = $0
	while (match(line, /[$][0-9]+/)) {
		number = substr(line, RSTART + 1, RLENGTH - 1) + 0
		if (number > parameters)
			parameters = number
		line = substr(line, RSTART + RLENGTH)
	}
}

END {
	if (failed || !("takes" in text) && !("gives" in text))
		exit failed
	for (kind in text) {
		if (!match(text[kind], /^[A-Za-z.0-9_]+(:|$)/))
			fail("a head begins with the name of a message and a colon: " text[kind])
		message[kind] = substr(text[kind], 1, RLENGTH)
		items_text[kind] = substr(text[kind], RLENGTH + 1)
		sub(/:$/, "", message[kind])
		sub(/^ +/, "", items_text[kind])
	}
	list = ""
	if (match(message["gives"], /\./)) {
		list = substr(message["gives"], RSTART + 1)
		message["gives"] = substr(message["gives"], 1, RSTART - 1)
	}
	takes = split_items(items_text["takes"], took)
	gives = split_items(items_text["gives"], gave)
	if ("takes" in text && takes != parameters)
		fail("it takes " takes " fields and has " parameters " parameters")
	if (check) {
		printf "0"
		for (i = 1; i <= takes; i++) {
			item = took[i]
			sub(/[?]$/, "", item)
			if (item !~ /^@/)
				printf "%s", path_check(message["takes"], "", item)
		}
		for (i = 1; i <= gives; i++)
			if (gave[i] != "-")
				printf "%s", path_check(message["gives"], list, gave[i])
		printf "\n"
		exit 0
	}
	printf "%s, %s, \"%s\", \"", "takes" in text ? descriptor(message["takes"]) : "NULL",
		"gives" in text ? descriptor(message["gives"]) : "NULL", list
	for (i = 1; i <= takes; i++)
		printf "%s%s", (i > 1 ? " " : ""), took[i]
	printf "\", \""
	for (i = 1; i <= gives; i++)
		printf "%s%s", (i > 1 ? " " : ""), gave[i]
	printf "\"\n"
}
