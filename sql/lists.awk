# Lists of columns: a comment `{kept shown} …` after a column in tables/tasks.sql puts it on these lists, in the order of the table.
#
#   {kept}, t.{kept}         the columns of a list, separated by commas, each with the text before `{`
#   {numbers from $10}       parameters for them, arrays: $10::int[], $11::int[], $12::bigint[], …
#   {numbers from $10 at n}  an element of each: ($10::int[])[n], ($11::int[])[n], …
#
# With -v expand=1 it prints its input with these replaced. heads.awk uses the lists, too. -v tables=FILE is tasks.sql.

BEGIN {
	while ((getline definition <tables) > 0) {
		if (definition ~ /^create table /)
			table = definition
		if (table !~ /^create table tasks / || !match(definition, /-- [{][a-z ]+[}]/))
			continue
		count = split(substr(definition, RSTART + 4, RLENGTH - 5), marks, " ")
		split(definition, words, " ")
		for (i = 1; i <= count; i++) {
			lists[marks[i]] = lists[marks[i]] " " words[1]
			types[words[1]] = words[2]
			sub(/,$/, "", types[words[1]])
		}
	}
	close(tables)
}

# Returns the columns of a list, each with a prefix, or as parameters from a number.
function list_columns(name, prefix, from, at, out, i, count, columns, item) {
	count = split(lists[name], columns, " ")
	out = ""
	for (i = 1; i <= count; i++) {
		item = prefix columns[i]
		if (from)
			item = "$" (from + i - 1) "::" (types[columns[i]] == "smallint" ? "int" : types[columns[i]]) "[]"
		if (at != "")
			item = "(" item ")[" at "]"
		out = out (i > 1 ? ", " : "") item
	}
	return out
}

# Returns the text with all lists in it replaced.
function list_expand(text, out, token, prefix, words) {
	out = ""
	while (match(text, /([a-z]+[.])?[{][a-z]+( from [$][0-9]+( at [a-z0-9]+)?)?[}]/)) {
		token = substr(text, RSTART, RLENGTH)
		prefix = substr(token, 1, index(token, "{") - 1)
		split(substr(token, length(prefix) + 2, length(token) - length(prefix) - 2), words, " ")
		out = out substr(text, 1, RSTART - 1)
		out = out (words[1] in lists ? list_columns(words[1], prefix, substr(words[3], 2) + 0, words[5]) : token)
		text = substr(text, RSTART + RLENGTH)
		split("", words)
	}
	return out text
}

expand { print list_expand($0) }
