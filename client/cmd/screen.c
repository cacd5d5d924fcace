/*
 * Plain escape sequences, which every terminal of today knows. Signals are blocked and read from a descriptor, so no
 * handler runs in the middle of anything.
 */
#include "client/cmd/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
#define LEAVE "\x1b[?25h\x1b[?1049l"

static struct {
	struct termios before;
	int signal_fd;
} screen;

bool screen_possible(void)
{
	const char *kind = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

void screen_enter(void)
{
	struct termios raw = screen.before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	fputs(ENTER, stdout);
	fflush(stdout);
}

static void leave(void)
{
	fputs(LEAVE, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.before);
}

bool screen_open(void)
{
	static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
	sigset_t signals;

	if (tcgetattr(STDIN_FILENO, &screen.before) < 0)
		return false;
	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		sigaddset(&signals, taken[i]);
	screen.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return screen.signal_fd >= 0 && pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0;
}

void screen_close(void)
{
	leave();
	close(screen.signal_fd);
}

void screen_size(int *rows, int *columns)
{
	struct winsize size = {0};

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*rows = size.ws_row ? size.ws_row : 24;
	*columns = size.ws_col ? size.ws_col : 80;
}

/* Stops the process as Ctrl-Z does otherwise, with the terminal as it was. */
static void suspend(void)
{
	leave();
	raise(SIGSTOP);
	screen_enter();
}

static enum screen_event take_signal(int *value)
{
	struct signalfd_siginfo info;

	if (read(screen.signal_fd, &info, sizeof info) != sizeof info)
		return SCREEN_TIME;
	*value = (int)info.ssi_signo;
	if (*value == SIGTSTP)
		suspend();
	return *value == SIGTSTP || *value == SIGWINCH ? SCREEN_DRAW : SCREEN_SIGNAL;
}

enum screen_event screen_wait(int wake_fd, int timeout_ms, int *value)
{
	struct pollfd ready[] = {{.fd = screen.signal_fd, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN},
	    {.fd = wake_fd, .events = POLLIN}};
	unsigned char keys[64];
	ssize_t length;

	if (poll(ready, 3, timeout_ms) <= 0)
		return SCREEN_TIME;
	if (ready[0].revents)
		return take_signal(value);
	if (!ready[1].revents)
		return SCREEN_WOKEN;
	/* One key; more bytes are those of a function key, or of what was typed ahead. */
	length = read(STDIN_FILENO, keys, sizeof keys);
	*value = length > 0 ? keys[0] : SIGHUP;
	return length > 0 ? SCREEN_KEY : length < 0 && (errno == EINTR || errno == EAGAIN) ? SCREEN_TIME : SCREEN_SIGNAL;
}

void screen_draw(const char *text)
{
	int rows, columns;

	int row = 1;

	screen_size(&rows, &columns);
	fputs("\x1b[H", stdout);
	/* A line is erased before it is written: after a full one, that would erase its last character. */
	for (; row <= rows && *text; row++) {
		size_t length = strcspn(text, "\n");

		fputs(row > 1 ? "\r\n\x1b[2K" : "\x1b[2K", stdout);
		fwrite(text, 1, length, stdout);
		text += length + (text[length] == '\n');
	}
	if (row <= rows)
		fputs("\r\n\x1b[J", stdout);
	fflush(stdout);
}
