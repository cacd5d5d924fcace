/* A program's own full screen on a terminal, keys without Enter, and what a terminal's program must do at signals. */
#ifndef REEVE_CLIENT_SCREEN_H
#define REEVE_CLIENT_SCREEN_H

#include <stdbool.h>

enum screen_event {
	SCREEN_TIME,   /* the time is over */
	SCREEN_KEY,    /* a key: *value is its first byte */
	SCREEN_DRAW,   /* the size has changed, or the program goes on after Ctrl-Z: draw again */
	SCREEN_WOKEN,  /* the descriptor can be read */
	SCREEN_SIGNAL, /* end: *value is the signal, SIGHUP if the terminal has gone */
};

/* Returns whether standard input and output are a terminal that can do this. */
bool screen_possible(void);

/* Takes over these signals: SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH. Call it before threads start, which
 * inherit the signal mask. Returns false with errno set. */
bool screen_open(void);

/* Takes over the terminal. */
void screen_enter(void);

/* Gives back the terminal as it was. */
void screen_close(void);

/* Returns the terminal's size. */
void screen_size(int *rows, int *columns);

/* Waits for an event, up to timeout_ms (negative: without limit). */
enum screen_event screen_wait(int wake_fd, int timeout_ms, int *value);

/* Replaces what is shown. Lines beyond the last row are left out; each must fit into a row. */
void screen_draw(const char *text);

#endif
