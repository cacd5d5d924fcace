/* The command `reeve`. */
#include "client/cmd/command.h"

#include <locale.h>

int main(int argc, char **argv)
{
	/* Count characters as UTF-8 in every locale, because tasks are UTF-8. */
	setlocale(LC_CTYPE, "C.UTF-8");
	return command_main(argc, argv);
}
