# Lists of columns: a comment `{kept shown} …` after a column in tables/tasks.sql puts it on these lists, in the order of the table.
#
#   {kept}, t.{kept}         the columns of a list, separated by commas, each with the text before `{`
#   {submitted from $22}     parameters for them: $22::text[], $23::text[], …
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
		}
	}
	close(tables)
}

# Returns the columns of a list, each with a prefix, or as parameters from a number.
function list_columns(name, prefix, from, out, i, count, columns) {
	count = split(lists[name], columns, " ")
	out = ""
	for (i = 1; i <= count; i++)
		out = out (i > 1 ? ", " : "") (from ? "$" (from + i - 1) "::text[]" : prefix columns[i])
	return out
}

# Returns the text with all lists in it replaced.
function list_expand(text, out, token, prefix, words) {
	out = ""
	while (match(text, /([a-z]+[.])?[{][a-z]+( from [$][0-9]+)?[}]/)) {
		token = substr(text, RSTART, RLENGTH)
		prefix = substr(token, 1, index(token, "{") - 1)
		split(substr(token, length(prefix) + 2, length(token) - length(prefix) - 2), words, " ")
		out = out substr(text, 1, RSTART - 1)
		out = out (words[1] in lists ? list_columns(words[1], prefix, substr(words[3], 2) + 0) : token)
		text = substr(text, RSTART + RLENGTH)
		split("", words)
	}
	return out text
}

expand { print list_expand($0) }
