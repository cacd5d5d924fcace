/*
 * A TCP proxy that treats its connections like a bad network, on command: it drops, holds or delays the bytes of one
 * direction and resets connections. If it knows the messages, it loses, duplicates, delays or takes single ones.
 *
 *	reeve-test-proxy --listen PORT --to HOST:PORT|SOCKET --control PATH [--speaks bytes|sp|postgres]
 *	reeve-test-proxy --tell PATH COMMAND...      sends a running proxy a command and prints its answer
 *
 * It listens on 127.0.0.1; HOST is an IPv4 address, SOCKET the path of a Unix socket. `up` is towards --to, `down` the
 * other direction. After the answer `ok`, the command applies to every byte that arrives later.
 *
 *	pass                  everything returns to normal: held bytes go out in order, rules are forgotten, and
 *	                      connections that have lost bytes are reset
 *	drop up|down|both     bytes vanish, and so do ends of connections: neither side gets any notice
 *	hold up|down|both     bytes wait
 *	delay up|down|both MS bytes arrive this much later
 *	cut                   resets all connections
 *	refuse                from now on, new connections are reset
 *	status                prints "connections N" (open now) and "applied N" (how often rules have applied)
 *
 * Rules are about calls: `message` is the request, `answer` the response. They apply to the next COUNT calls (default
 * 1) with WORD in the message:
 *
 *	message|answer lose WORD [COUNT]
 *	message|answer double WORD [COUNT]        sp only
 *	message|answer late WORD MS [COUNT]       sp only: goes out this much later, while newer ones pass
 *	message|answer copy WORD FILE [COUNT]     sp only: the body also goes to FILE, as input for raw-call
 *	message|answer take WORD FILE [COUNT]     sp only: the body goes to FILE instead
 *	message|answer contract WORD N [COUNT]    sp only: the contract's version in it becomes N; answers must be to pings
 *
 * sp is nng's wire protocol of REQ and REP over TCP. With postgres, WORD is the full name of a prepared statement. A
 * connection whose statement or answer is lost is then reset: after `message lose` the server has not executed the
 * statement, after `answer lose` it has, and the client knows neither. Connections must not ask for encryption.
 */
#include "tests/tools/proxy.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

enum { WORDS_MAX = 6, LINE_MAX = 1024 };

struct proxy proxy;

void die(const char *what)
{
	perror(what);
	exit(1);
}

static void release_all(void)
{
	struct rule *rule, *next;
	struct link *link;
	struct unit *unit;

	proxy.refusing = false;
	DL_FOREACH_SAFE (proxy.rules, rule, next) {
		DL_DELETE(proxy.rules, rule);
		DL_APPEND(proxy.spent, rule);
	}
	for (int i = 0; i < 2; i++) {
		proxy.treatment[i] = PASS;
		DL_FOREACH (proxy.links, link) {
			if (link->way[i].robbed && !link->dying)
				link_reset(link);
			DL_FOREACH (link->way[i].waiting, unit)
				unit->due_us = 0;
			way_pump(&link->way[i]);
		}
	}
}

static bool treat(int count, char **word)
{
	enum treatment treatment = !strcmp(word[0], "drop") ? DROP : !strcmp(word[0], "hold") ? HOLD : DELAY;
	bool both;

	if (count != (treatment == DELAY ? 3 : 2) || (treatment == DELAY && strcmp(word[0], "delay") != 0))
		return false;
	both = !strcmp(word[1], "both");
	if (!both && strcmp(word[1], "up") != 0 && strcmp(word[1], "down") != 0)
		return false;
	for (int i = 0; i < 2; i++) {
		if (both || (i == UP) == !strcmp(word[1], "up")) {
			proxy.treatment[i] = treatment;
			proxy.delay_ms[i] = treatment == DELAY ? atoll(word[2]) : 0;
		}
	}
	return true;
}

static bool rule_add(int count, char **word)
{
	static const char *const names[] = {[LOSE] = "lose",
	    [DOUBLE] = "double",
	    [LATE] = "late",
	    [COPY] = "copy",
	    [TAKE] = "take",
	    [CONTRACT] = "contract"};
	struct rule rule = {.answer = !strcmp(word[0], "answer"), .left = 1}, *kept;
	int action = 0, with;

	if (count < 3 || (!rule.answer && strcmp(word[0], "message") != 0))
		return false;
	while (action <= CONTRACT && strcmp(word[1], names[action]) != 0)
		action++;
	with = action >= LATE ? 4 : 3; /* number of words without the count */
	if (action > CONTRACT || count < with || count > with + 1 || proxy.speech == BYTES ||
	    (proxy.speech == POSTGRES && action != LOSE))
		return false;
	rule.action = (enum action)action;
	snprintf(rule.word, sizeof rule.word, "%s", word[2]);
	if (action == LATE)
		rule.ms = atoll(word[3]);
	else if (action == CONTRACT)
		rule.contract = (uint32_t)atoll(word[3]);
	else if (action > LATE)
		snprintf(rule.file, sizeof rule.file, "%s", word[3]);
	if (count > with)
		rule.left = atoi(word[with]);
	kept = malloc(sizeof *kept);
	if (!kept)
		abort();
	*kept = rule;
	DL_APPEND(proxy.rules, kept);
	return true;
}

static void obey(char *line, struct evbuffer *answer)
{
	char *word[WORDS_MAX], *rest = NULL;
	struct link *link;
	int count = 0, connections = 0;

	for (char *w = strtok_r(line, " ", &rest); w && count < WORDS_MAX; w = strtok_r(NULL, " ", &rest))
		word[count++] = w;
	if (count == 1 && !strcmp(word[0], "pass")) {
		release_all();
	} else if (count == 1 && !strcmp(word[0], "cut")) {
		DL_FOREACH (proxy.links, link)
			link_reset(link);
	} else if (count == 1 && !strcmp(word[0], "refuse")) {
		proxy.refusing = true;
	} else if (count == 1 && !strcmp(word[0], "status")) {
		DL_FOREACH (proxy.links, link)
			connections += !link->dying;
		evbuffer_add_printf(answer, "connections %d\napplied %" PRId64 "\n", connections, proxy.applied);
	} else if (count == 0 || (!treat(count, word) && !rule_add(count, word))) {
		evbuffer_add_printf(answer, "what?\n");
		return;
	}
	evbuffer_add_printf(answer, "ok\n");
}

static void on_told(struct bufferevent *bev, void *arg)
{
	char *line = evbuffer_readln(bufferevent_get_input(bev), NULL, EVBUFFER_EOL_LF);

	(void)arg;
	if (line)
		obey(line, bufferevent_get_output(bev));
	free(line);
}

static void on_told_all(struct bufferevent *bev, short what, void *arg)
{
	(void)what, (void)arg;
	bufferevent_free(bev);
}

static void on_control(
    struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int length, void *arg)
{
	struct bufferevent *bev = bufferevent_socket_new(proxy.base, fd, BEV_OPT_CLOSE_ON_FREE);

	(void)listener, (void)from, (void)length, (void)arg;
	bufferevent_setcb(bev, on_told, NULL, on_told_all, NULL);
	bufferevent_enable(bev, EV_READ | EV_WRITE);
}

/* ---- The program ---- */

/* A string with a slash is the path of a Unix socket; otherwise it is HOST:PORT with an IPv4 address. Returns the
 * address's length, or 0 if it is invalid. */
static socklen_t address_read(const char *text, struct sockaddr_storage *address)
{
	struct sockaddr_un *path = (struct sockaddr_un *)address;
	struct sockaddr_in *in = (struct sockaddr_in *)address;
	char host[64];
	int port;

	memset(address, 0, sizeof *address);
	if (strchr(text, '/')) {
		if (strlen(text) >= sizeof path->sun_path)
			return 0;
		path->sun_family = AF_UNIX;
		memcpy(path->sun_path, text, strlen(text));
		return sizeof *path;
	}
	in->sin_family = AF_INET;
	if (sscanf(text, "%63[0-9.]:%d", host, &port) != 2 || inet_pton(AF_INET, host, &in->sin_addr) != 1)
		return 0;
	in->sin_port = htons((uint16_t)port);
	return sizeof *in;
}

static struct evconnlistener *listen_at(const char *text, evconnlistener_cb accept)
{
	struct sockaddr_storage address;
	socklen_t length = address_read(text, &address);
	struct evconnlistener *listener = NULL;

	if (length)
		listener = evconnlistener_new_bind(proxy.base, accept, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, -1,
		    (struct sockaddr *)&address, (int)length);
	if (!listener)
		die(text);
	return listener;
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what, (void)arg;
	event_base_loopbreak(proxy.base);
}

static int run(const char *port, const char *control)
{
	struct evconnlistener *listener, *commands;
	struct event_config *config;
	struct event *term, *interrupt;
	struct rule *rule, *next;
	struct link *link, *other;
	char address[64];

	signal(SIGPIPE, SIG_IGN);
	/* libevent's default clock is some milliseconds coarse: it would make a delay of 1 ms one of 4 ms. */
	config = event_config_new();
	event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
	proxy.base = event_base_new_with_config(config);
	event_config_free(config);
	proxy.sweep = event_new(proxy.base, -1, 0, on_sweep, NULL);
	term = evsignal_new(proxy.base, SIGTERM, on_signal, NULL);
	interrupt = evsignal_new(proxy.base, SIGINT, on_signal, NULL);
	event_add(term, NULL);
	event_add(interrupt, NULL);
	snprintf(address, sizeof address, "127.0.0.1:%s", port);
	listener = listen_at(address, on_accept);
	commands = listen_at(control, on_control);
	event_base_dispatch(proxy.base);
	DL_FOREACH_SAFE (proxy.links, link, other)
		link_free(link);
	DL_CONCAT(proxy.rules, proxy.spent);
	DL_FOREACH_SAFE (proxy.rules, rule, next)
		free(rule);
	evconnlistener_free(listener);
	evconnlistener_free(commands);
	event_free(term);
	event_free(interrupt);
	event_free(proxy.sweep);
	event_base_free(proxy.base);
	return 0;
}

/* Sends a running proxy a command and prints its answer. Returns the exit code: 0 if the answer is ok. */
static int tell(const char *control, int count, char **word)
{
	struct sockaddr_storage address;
	socklen_t length = address_read(control, &address);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char answer[LINE_MAX] = "";
	size_t filled = 0;
	ssize_t n;

	if (!length || fd < 0 || connect(fd, (struct sockaddr *)&address, length))
		die(control);
	for (int i = 0; i < count; i++)
		dprintf(fd, "%s%c", word[i], i < count - 1 ? ' ' : '\n');
	while (filled < sizeof answer - 1 && !strstr(answer, "ok\n") && !strstr(answer, "what?\n") &&
	    (n = read(fd, answer + filled, sizeof answer - 1 - filled)) > 0)
		filled += (size_t)n;
	close(fd);
	fputs(answer, stdout);
	return strstr(answer, "ok\n") ? 0 : 1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"listen", required_argument, NULL, 'l'},
	    {"to", required_argument, NULL, 't'},
	    {"control", required_argument, NULL, 'c'},
	    {"speaks", required_argument, NULL, 's'},
	    {"tell", required_argument, NULL, 'T'},
	    {0},
	};
	const char *port = NULL, *to = NULL, *control = NULL, *speaks = "bytes", *told = NULL;

	for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
		switch (option) {
		case 'l': port = optarg; break;
		case 't': to = optarg; break;
		case 'c': control = optarg; break;
		case 's': speaks = optarg; break;
		case 'T': told = optarg; break;
		default: return 2;
		}
	}
	if (told)
		return tell(told, argc - optind, argv + optind);
	proxy.speech = !strcmp(speaks, "sp") ? SP : !strcmp(speaks, "postgres") ? POSTGRES : BYTES;
	if (!port || !to || !control || !(proxy.to_length = address_read(to, &proxy.to))) {
		fprintf(stderr, "Usage: reeve-test-proxy --listen PORT --to HOST:PORT|SOCKET --control PATH [--speaks NAME]\n");
		return 2;
	}
	return run(port, control);
}
