/* Terminals. The system reports their properties; widths are the C library's, by character. */
#include "client/cmd/terminal.h"

#include "common/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

const char terminal_no_colour[] = "\x1b[0m";

static const char *colour_when = "auto"; /* --color */

void terminal_colour_set(const char *when)
{
	colour_when = when;
}

int terminal_columns(FILE *out)
{
	const char *wanted = getenv("COLUMNS");
	struct winsize size;

	if (!isatty(fileno(out)))
		return 0;
	if (wanted && atoi(wanted) > 0)
		return atoi(wanted);
	return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool terminal_has_colour(FILE *out)
{
	const char *no_colour = getenv("NO_COLOR");
	const char *kind = getenv("TERM");

	if (strcmp(colour_when, "auto") != 0)
		return !strcmp(colour_when, "always");
	return isatty(fileno(out)) && !(no_colour && *no_colour) && kind && strcmp(kind, "dumb") != 0;
}

const char *terminal_state_colour(const char *word)
{
	static const struct {
		const char *colour, *words;
	} colours[] = {
	    {"\x1b[32m", " completed alive delivered "},
	    {"\x1b[33m", " failed late waiting paused draining lost "},
	    {"\x1b[31m", " dead given_up "},
	    {"\x1b[36m", " executing "},
	    {"\x1b[2m", " cancelled gone "},
	};
	char wanted[32];

	snprintf(wanted, sizeof wanted, " %s ", word);
	for (size_t i = 0; *word && i < sizeof colours / sizeof *colours; i++)
		if (strstr(colours[i].words, wanted))
			return colours[i].colour;
	return "";
}

/* Returns the character at `text` if it can control a terminal or change the order of other characters: C0, DEL, C1,
 * U+2028, U+2029, and those that set the text direction. Otherwise returns 0. Sets *bytes to its length. */
static unsigned steering(const char *text, int *bytes)
{
	const unsigned char *at = (const unsigned char *)text;
	unsigned c = at[0];

	*bytes = 1;
	if (c < 0x20 || c == 0x7f)
		return c;
	if (c == 0xc2 || c == 0xd8) {
		*bytes = 2;
		c = (c & 0x1f) << 6 | (at[1] & 0x3f);
		return (at[1] & 0xc0) == 0x80 && ((c >= 0x80 && c < 0xa0) || c == 0x61c) ? c : 0;
	}
	if (c != 0xe2 || (at[1] & 0xc0) != 0x80 || (at[2] & 0xc0) != 0x80)
		return 0;
	*bytes = 3;
	c = 0x2000 | (at[1] & 0x3f) << 6 | (at[2] & 0x3f);
	return c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ? c : 0;
}

static char *escape_bytes(char *to, const char *text, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to += sprintf(to, "\\x%02x", (unsigned char)text[i]);
	return to;
}

void terminal_write_clean(FILE *out, const char *text)
{
	char escaped[16];
	int bytes;

	for (; *text; text += bytes) {
		if (!steering(text, &bytes) || *text == '\n' || *text == '\t') {
			fputc(*text, out);
			bytes = 1;
		} else {
			escape_bytes(escaped, text, bytes);
			fputs(escaped, out);
		}
	}
}

void terminal_write_json(FILE *out, const char *json)
{
	int bytes;

	for (; *json; json += bytes) {
		unsigned c = steering(json, &bytes);

		if (c >= 0x7f) {
			fprintf(out, "\\u%04x", c);
		} else { /* other control characters are only between values */
			fputc(*json, out);
			bytes = 1;
		}
	}
}

char *terminal_one_line(const char *text)
{
	char *line = mem_malloc(4 * strlen(text) + 1);
	char *to = line;

	for (int bytes; *text; text += bytes) {
		if (!steering(text, &bytes)) {
			*to++ = *text;
			bytes = 1;
		} else if (*text == '\n' || *text == '\t' || *text == '\r') {
			*to++ = ' ';
		} else {
			to = escape_bytes(to, text, bytes);
		}
	}
	/* A final newline must not become a blank. */
	while (to > line && to[-1] == ' ')
		to--;
	*to = '\0';
	return line;
}

/* Returns the columns of the character at `text`, and sets *bytes to its length. */
static int character_width(const char *text, size_t *bytes)
{
	mbstate_t state = {0};
	wchar_t character;
	size_t length = mbrtowc(&character, text, strlen(text), &state);

	if (length == (size_t)-1 || length == (size_t)-2) {
		*bytes = 1;
		return 1;
	}
	*bytes = length;
	int width = wcwidth(character);
	return width < 0 ? 1 : width;
}

int terminal_lines(const char *text)
{
	int lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

int terminal_width(const char *text)
{
	int width = 0;
	size_t bytes;

	for (; *text; text += bytes)
		width += character_width(text, &bytes);
	return width;
}

size_t terminal_cut(const char *text, int columns, int *width)
{
	const char *at = text;
	size_t bytes;

	*width = 0;
	for (; *at; at += bytes) {
		int more = character_width(at, &bytes);

		if (*width + more > columns)
			break;
		*width += more;
	}
	return at - text;
}

const char *terminal_age(int64_t now_us, int64_t then_us, char *out, size_t size)
{
	static const struct {
		char unit;
		int64_t seconds;
	} units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
	/* Differences between clocks do not count as future. The future is rounded up, so that a delay of one hour that has
	 * just begun is "in 60m". */
	bool future = then_us - now_us > 500000;
	int64_t seconds = future ? (then_us - now_us + 999999) / 1000000 : (now_us - then_us) / 1000000;
	size_t i = 0;

	if (seconds < 0)
		seconds = 0;
	if (then_us == 0) {
		snprintf(out, size, "-");
		return out;
	}
	/* At least two of a unit, except seconds: "90s" is more precise than "1m". */
	while (units[i].seconds > 1 && seconds < 2 * units[i].seconds)
		i++;
	snprintf(out, size, "%s%" PRId64 "%c", future ? "in " : "", seconds / units[i].seconds, units[i].unit);
	return out;
}

/* Writes a time in the local time zone, with its offset from UTC. */
static void write_time(int64_t us, bool has_seconds, char *out, size_t size)
{
	time_t seconds = (time_t)(us / 1000000);
	char date[32], fraction[16] = "", zone[8] = "Z";
	struct tm local;
	long minutes;

	localtime_r(&seconds, &local);
	minutes = local.tm_gmtoff / 60;
	if (minutes)
		snprintf(zone, sizeof zone, "%c%02d:%02d", minutes < 0 ? '-' : '+', (int)(labs(minutes) / 60 % 100),
		    (int)(labs(minutes) % 60));
	strftime(date, sizeof date, "%Y-%m-%d %H:%M", &local);
	if (has_seconds)
		snprintf(fraction, sizeof fraction, ":%02d.%03d", local.tm_sec, (int)(us / 1000 % 1000));
	snprintf(out, size, "%s%s%s", date, fraction, zone);
}

const char *terminal_time(int64_t us, char *out, size_t size)
{
	if (us)
		write_time(us, true, out, size);
	else
		snprintf(out, size, "-");
	return out;
}

const char *terminal_minute(int64_t us, char *out, size_t size)
{
	write_time(us, false, out, size);
	return out;
}
