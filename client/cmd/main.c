/* The command `reeve`. */
#include "client/cmd/command.h"

#include <locale.h>

int main(int argc, char **argv)
{
	/* Characters are counted as UTF-8, whatever the language: that is what tasks are written in. */
	setlocale(LC_CTYPE, "C.UTF-8");
	return command_main(argc, argv);
}
