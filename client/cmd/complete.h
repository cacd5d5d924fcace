/* Completion of command lines: see complete.c. */
#ifndef REEVE_CLIENT_CMD_COMPLETE_H
#define REEVE_CLIENT_CMD_COMPLETE_H

/* Prints what can follow: the words of a command line without the program's name, the last one of which has only begun.
 * Each line has a word, a tab, and what it is about. */
void complete_line(int count, char **words);

#endif
