/* `reeve completion`: the scripts of the shells. All they do is to pass the words to `reeve completion words`
 * (complete.c). */
#include "client/cmd/command.h"
#include "client/cmd/complete.h"

#include <stdio.h>
#include <string.h>

static const struct option_table completion_table = {
    .program = "reeve completion",
    .usage = "bash|zsh|fish",
    .summary = "Prints the script by which a shell completes commands, options, names and ids of reeve.",
    .epilogue = "Names and ids come from the manager, by $REEVE_MANAGER or the options on the line.\n"
                "\n"
                "bash: source <(reeve completion bash)\n"
                "zsh:  source <(reeve completion zsh)\n"
                "fish: reeve completion fish | source",
};

static const char bash[] =
    "_reeve()\n"
    "{\n"
    "	local IFS=$'\\n'\n"
    "	COMPREPLY=($(reeve completion words -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null | cut -f 1))\n"
    "	compopt -o filenames 2>/dev/null\n"
    "}\n"
    "complete -o default -F _reeve reeve\n";

static const char zsh[] =
    "#compdef reeve\n"
    "_reeve()\n"
    "{\n"
    "	local -a words_found\n"
    "	local line\n"
    "	for line in \"${(@f)$(reeve completion words -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\"; do\n"
    "		[[ -n $line ]] && words_found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
    "	done\n"
    "	if (( $#words_found )); then\n"
    "		_describe reeve words_found\n"
    "	else\n"
    "		_files\n"
    "	fi\n"
    "}\n"
    "if [[ $funcstack[1] = _reeve ]]; then\n"
    "	_reeve \"$@\"\n"
    "else\n"
    "	compdef _reeve reeve\n"
    "fi\n";

static const char fish[] = "function __reeve_complete\n"
                           "	set -l words (commandline -opc) (commandline -ct)\n"
                           "	set -l found (reeve completion words -- $words[2..-1] 2>/dev/null)\n"
                           "	if test (count $found) -gt 0\n"
                           "		printf '%s\\n' $found\n"
                           "	else\n"
                           "		__fish_complete_path (commandline -ct)\n"
                           "	end\n"
                           "end\n"
                           "complete -c reeve -f -a '(__reeve_complete)'\n";

int command_completion(int argc, char **argv)
{
	static const struct {
		const char *shell, *script;
	} scripts[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
	struct shared_options shared = {0};
	int operands, code;

	if (!command_options(&completion_table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	if (operands > 0 && !strcmp(argv[1], "words")) {
		complete_line(operands - 1, argv + 2);
		return EXIT_OK;
	}
	if (operands != 1)
		return command_usage(&completion_table, "give one shell: bash, zsh or fish");
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
		if (!strcmp(scripts[i].shell, argv[1])) {
			fputs(scripts[i].script, stdout);
			return EXIT_OK;
		}
	return command_usage(&completion_table, "\"%s\" is not a known shell; there are bash, zsh and fish", argv[1]);
}
