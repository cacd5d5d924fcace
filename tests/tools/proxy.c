/*
 * A TCP proxy that does to its connections what a bad network does, on command: it drops, holds or delays what goes one
 * way, resets connections, and, where it knows the messages, loses, doubles, delays or takes single ones.
 *
 *	reeve-test-proxy --listen PORT --to HOST:PORT|SOCKET --control PATH [--speaks bytes|sp|postgres]
 *	reeve-test-proxy --tell PATH COMMAND...      gives a running one a command, and prints what it says
 *
 * It listens on 127.0.0.1; HOST is an IPv4 address, SOCKET a Unix socket's path. `up` is towards --to, `down` the other
 * way. When `ok` comes, the command holds for every byte that arrives later.
 *
 *	pass                  everything back to normal: what is held goes out in order, rules are forgotten, and connections
 *	                      that have lost bytes are reset
 *	drop up|down|both     bytes vanish, ends of connections too: nobody is told anything
 *	hold up|down|both     bytes wait
 *	delay up|down|both MS bytes arrive so much later
 *	cut                   resets all connections
 *	refuse                from now on new connections are reset
 *	status                prints "connections N" (open now), "applied N" (how often rules have applied)
 *
 * Rules are about calls: `message` is what asks, `answer` what comes back. The next COUNT (1 unless given) calls with
 * WORD in the message are treated so:
 *
 *	message|answer lose WORD [COUNT]
 *	message|answer double WORD [COUNT]        sp only
 *	message|answer late WORD MS [COUNT]       sp only: goes out so much later, while newer ones pass
 *	message|answer copy WORD FILE [COUNT]     sp only: the body also goes to FILE, which then is what raw-call sends
 *	message|answer take WORD FILE [COUNT]     sp only: the body goes to FILE instead
 *
 * sp is nng's wire protocol of REQ and REP over TCP. With postgres, WORD is a prepared statement's whole name. A connection
 * whose statement or answer is lost is then reset: after `message lose` the server has not executed it, after `answer
 * lose` it has, and the client knows neither. Connections must not ask for encryption.
 */
#include "common/clock.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utlist.h>

enum { SP_GREETING = 8, SP_HEAD = 8, SP_CALL_ID = 4, WORDS_MOST = 6, LINE_MOST = 1024 };
enum speech { BYTES, SP, POSTGRES };
enum direction { UP, DOWN };
enum treatment { PASS, DROP, HOLD, DELAY };
enum action { LOSE, DOUBLE, LATE, COPY, TAKE };

#define NEVER INT64_MAX

/* What is on its way: bytes, or the end of the stream. */
struct unit {
	struct unit *prev, *next;
	int64_t due_ms;
	bool end;
	struct evbuffer *bytes;
};

/* One direction of a connection. */
struct way {
	struct link *link;
	enum direction direction;
	struct bufferevent *from, *to;
	struct unit *waiting; /* in order */
	struct unit *late;    /* in no order */
	struct event *timer;
	bool robbed;          /* bytes have vanished */
	bool greeted;         /* past what comes before the first message */
	bool losing;          /* postgres: what comes vanishes, up to the answer's end */
};

/* A call of which the answer is spoken for. */
struct spoken_for {
	struct spoken_for *prev, *next;
	uint32_t call_id;
	struct rule *rule;
};

struct link {
	struct link *prev, *next;
	struct way way[2];
	struct spoken_for *spoken_for;
	bool dying;
};

struct rule {
	struct rule *prev, *next;
	bool answer;
	enum action action;
	char word[80], file[512];
	int64_t ms;
	int left; /* how many calls it is for yet */
};

static struct {
	struct event_base *base;
	enum speech speech;
	struct sockaddr_storage to;
	socklen_t to_length;
	struct link *links;
	struct event *sweep;
	enum treatment treatment[2];
	int64_t delay_ms[2];
	struct rule *rules, *spent;
	bool refusing;
	int64_t applied;
} proxy;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- connections ---- */

static void unit_free(struct unit *unit)
{
	evbuffer_free(unit->bytes);
	free(unit);
}

static void link_reset(struct link *link)
{
	static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

	for (int i = 0; i < 2; i++) {
		int fd = bufferevent_getfd(link->way[i].from);

		if (fd >= 0)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	}
	link->dying = true;
	event_active(proxy.sweep, EV_TIMEOUT, 0);
}

static void way_clear(struct way *way)
{
	struct unit *unit, *next;

	DL_FOREACH_SAFE (way->waiting, unit, next)
		unit_free(unit);
	DL_FOREACH_SAFE (way->late, unit, next)
		unit_free(unit);
	event_free(way->timer);
	bufferevent_free(way->from);
}

static void link_free(struct link *link)
{
	struct spoken_for *one, *next;

	way_clear(&link->way[UP]);
	way_clear(&link->way[DOWN]);
	DL_FOREACH_SAFE (link->spoken_for, one, next)
		free(one);
	DL_DELETE(proxy.links, link);
	free(link);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct link *link, *next;

	(void)fd, (void)what, (void)arg;
	DL_FOREACH_SAFE (proxy.links, link, next)
		if (link->dying)
			link_free(link);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct way *way = arg; /* the one that `bev` is the source of */

	(void)bev;
	way->link->dying = true;
	event_active(proxy.sweep, EV_TIMEOUT, 0);
}

static void unit_send(struct way *way, struct unit *unit)
{
	if (!unit->end) {
		bufferevent_write_buffer(way->to, unit->bytes);
	} else if (evbuffer_get_length(bufferevent_get_output(way->to)) == 0) {
		on_written(way->to, way);
	} else { /* once the last bytes have gone */
		bufferevent_setcb(way->to, NULL, on_written, NULL, &way->link->way[!way->direction]);
	}
	unit_free(unit);
}

/* Sends what is due, and sets the timer for the rest. */
static void way_pump(struct way *way)
{
	int64_t now = clock_monotonic_ms(), next_ms = NEVER;
	struct unit *unit, *next;

	while ((unit = way->waiting) && unit->due_ms <= now) {
		DL_DELETE(way->waiting, unit);
		unit_send(way, unit);
	}
	if (way->waiting)
		next_ms = way->waiting->due_ms;
	DL_FOREACH_SAFE (way->late, unit, next) {
		if (unit->due_ms <= now) {
			DL_DELETE(way->late, unit);
			unit_send(way, unit);
		} else if (unit->due_ms < next_ms) {
			next_ms = unit->due_ms;
		}
	}
	if (next_ms == NEVER)
		return;
	struct timeval wait = {.tv_sec = (next_ms - now) / 1000, .tv_usec = (next_ms - now) % 1000 * 1000};

	event_add(way->timer, &wait);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	way_pump(arg);
}

static struct unit *unit_make(struct evbuffer *bytes, bool end)
{
	struct unit *unit = calloc(1, sizeof *unit);

	if (!unit)
		abort();
	unit->bytes = bytes;
	unit->end = end;
	return unit;
}

/* Puts bytes, or the end, on their way as the direction is treated now. Takes the bytes. */
static void way_send(struct way *way, struct evbuffer *bytes, bool end)
{
	struct unit *unit = unit_make(bytes, end);

	switch (proxy.treatment[way->direction]) {
	case DROP:
		way->robbed = true;
		unit_free(unit);
		return;
	case HOLD: unit->due_ms = NEVER; break;
	case DELAY: unit->due_ms = clock_monotonic_ms() + proxy.delay_ms[way->direction]; break;
	case PASS: break;
	}
	DL_APPEND(way->waiting, unit);
	way_pump(way);
}

/* ---- rules ---- */

static struct evbuffer *bytes_of(const void *data, size_t length)
{
	struct evbuffer *bytes = evbuffer_new();

	if (!bytes || evbuffer_add(bytes, data, length))
		abort();
	return bytes;
}

static struct rule *rule_for(bool answer, const uint8_t *message, size_t length, bool whole)
{
	struct rule *rule;

	DL_FOREACH (proxy.rules, rule) {
		size_t n = strlen(rule->word);

		if (rule->answer == answer && rule->left > 0 &&
		    (whole ? n == length && !memcmp(message, rule->word, n) : memmem(message, length, rule->word, n) != NULL)) {
			if (--rule->left == 0) { /* answers may refer to it yet */
				DL_DELETE(proxy.rules, rule);
				DL_APPEND(proxy.spent, rule);
			}
			return rule;
		}
	}
	return NULL;
}

/* Written apart and then renamed: who sees the file sees all of it. */
static void write_body(const char *path, const uint8_t *frame, size_t length)
{
	size_t head = SP_HEAD + SP_CALL_ID;
	char apart[600];
	FILE *file;

	snprintf(apart, sizeof apart, "%s.part", path);
	file = fopen(apart, "w");
	if (!file || fwrite(frame + head, 1, length - head, file) != length - head || fclose(file) || rename(apart, path))
		die(path);
}

/* Treats one sp message as a rule says. */
static void rule_apply(const struct rule *rule, struct way *way, const uint8_t *frame, size_t length)
{
	struct unit *unit;

	proxy.applied++;
	switch (rule->action) {
	case LOSE: break;
	case TAKE: write_body(rule->file, frame, length); break;
	case COPY:
		write_body(rule->file, frame, length);
		way_send(way, bytes_of(frame, length), false);
		break;
	case DOUBLE:
		way_send(way, bytes_of(frame, length), false);
		way_send(way, bytes_of(frame, length), false);
		break;
	case LATE:
		unit = unit_make(bytes_of(frame, length), false);
		unit->due_ms = clock_monotonic_ms() + rule->ms;
		DL_APPEND(way->late, unit);
		way_pump(way);
		break;
	}
}

static uint32_t call_id_of(const uint8_t *frame, size_t length)
{
	uint32_t id = 0;

	if (length >= SP_HEAD + SP_CALL_ID)
		memcpy(&id, frame + SP_HEAD, sizeof id);
	return id;
}

static void sp_request(struct way *way, const uint8_t *frame, size_t length)
{
	struct rule *rule = rule_for(true, frame, length, false);

	if (rule) {
		struct spoken_for *one = calloc(1, sizeof *one);

		if (!one)
			abort();
		one->call_id = call_id_of(frame, length);
		one->rule = rule;
		DL_APPEND(way->link->spoken_for, one);
	}
	rule = rule_for(false, frame, length, false);
	if (rule)
		rule_apply(rule, way, frame, length);
	else
		way_send(way, bytes_of(frame, length), false);
}

static void sp_reply(struct way *way, const uint8_t *frame, size_t length)
{
	struct spoken_for *one;

	DL_FOREACH (way->link->spoken_for, one) {
		if (one->call_id == call_id_of(frame, length)) {
			DL_DELETE(way->link->spoken_for, one);
			rule_apply(one->rule, way, frame, length);
			free(one);
			return;
		}
	}
	way_send(way, bytes_of(frame, length), false);
}

/* The length of the message at the input's head, 0 if it is not all there. */
static size_t sp_length(struct way *way, struct evbuffer *input)
{
	size_t there = evbuffer_get_length(input);
	uint8_t head[SP_HEAD];
	uint64_t length = 0;

	if (!way->greeted)
		return there < SP_GREETING ? 0 : SP_GREETING;
	if (there < SP_HEAD)
		return 0;
	evbuffer_copyout(input, head, sizeof head);
	for (size_t i = 0; i < sizeof head; i++)
		length = length << 8 | head[i];
	return there < SP_HEAD + length ? 0 : SP_HEAD + (size_t)length;
}

static size_t postgres_length(struct way *way, struct evbuffer *input)
{
	bool startup = way->direction == UP && !way->greeted; /* the one message without a type */
	size_t there = evbuffer_get_length(input), type = startup ? 0 : 1;
	uint8_t head[5];
	uint32_t length;

	if (there < type + 4)
		return 0;
	evbuffer_copyout(input, head, (ev_ssize_t)(type + 4));
	memcpy(&length, head + type, sizeof length);
	length = ntohl(length);
	return there < type + length ? 0 : type + length;
}

/* A Bind names its portal and then its statement. */
static struct rule *postgres_rule(bool answer, const uint8_t *message, size_t length)
{
	const uint8_t *name, *end;

	if (message[0] != 'B' || !(name = memchr(message + 5, 0, length - 5)))
		return NULL;
	name++;
	end = memchr(name, 0, length - (size_t)(name - message));
	return end ? rule_for(answer, name, (size_t)(end - name), true) : NULL;
}

static void postgres_message(struct way *way, const uint8_t *message, size_t length)
{
	struct way *back = &way->link->way[DOWN];

	if (way->direction == UP && way->greeted) {
		if (postgres_rule(false, message, length)) {
			proxy.applied++;
			link_reset(way->link);
			return;
		}
		if (postgres_rule(true, message, length))
			back->losing = true;
	}
	if (!way->losing) {
		way_send(way, bytes_of(message, length), false);
	} else if (message[0] == 'Z') { /* ready for the next: it is done */
		proxy.applied++;
		link_reset(way->link);
	}
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *input = bufferevent_get_input(bev);
	struct way *way = arg;
	size_t length;

	while (!way->link->dying && (length = evbuffer_get_length(input)) > 0) {
		if (proxy.speech == SP)
			length = sp_length(way, input);
		else if (proxy.speech == POSTGRES)
			length = postgres_length(way, input);
		if (!length)
			return;
		const uint8_t *message = evbuffer_pullup(input, (ev_ssize_t)length);

		if (proxy.speech == POSTGRES)
			postgres_message(way, message, length);
		else if (proxy.speech == BYTES || !way->greeted)
			way_send(way, bytes_of(message, length), false);
		else if (way->direction == UP)
			sp_request(way, message, length);
		else
			sp_reply(way, message, length);
		way->greeted = true;
		evbuffer_drain(input, length);
	}
}

/* One side has ended, or could not be connected. */
static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct way *way = arg;

	(void)bev;
	if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) && !way->link->dying)
		way_send(way, evbuffer_new(), true);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int length, void *arg)
{
	static const int yes = 1;
	struct link *link = calloc(1, sizeof *link);
	struct bufferevent *near = bufferevent_socket_new(proxy.base, fd, BEV_OPT_CLOSE_ON_FREE);
	struct bufferevent *far = bufferevent_socket_new(proxy.base, -1, BEV_OPT_CLOSE_ON_FREE);

	(void)listener, (void)from, (void)length, (void)arg;
	if (!link || !near || !far)
		abort();
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	link->way[UP] = (struct way){.link = link, .direction = UP, .from = near, .to = far};
	link->way[DOWN] = (struct way){.link = link, .direction = DOWN, .from = far, .to = near};
	for (int i = 0; i < 2; i++) {
		struct way *way = &link->way[i];

		way->timer = evtimer_new(proxy.base, on_timer, way);
		bufferevent_setcb(way->from, on_read, NULL, on_event, way);
	}
	DL_APPEND(proxy.links, link);
	if (proxy.refusing || bufferevent_socket_connect(far, (struct sockaddr *)&proxy.to, (int)proxy.to_length)) {
		link_reset(link);
		return;
	}
	setsockopt(bufferevent_getfd(far), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* no matter on a Unix socket */
	bufferevent_enable(near, EV_READ | EV_WRITE);
	bufferevent_enable(far, EV_READ | EV_WRITE);
}

/* ---- commands ---- */

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
				unit->due_ms = 0;
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
	static const char *const names[] = {[LOSE] = "lose", [DOUBLE] = "double", [LATE] = "late", [COPY] = "copy",
	    [TAKE] = "take"};
	struct rule rule = {.answer = !strcmp(word[0], "answer"), .left = 1}, *kept;
	int action = 0, with;

	if (count < 3 || (!rule.answer && strcmp(word[0], "message") != 0))
		return false;
	while (action <= TAKE && strcmp(word[1], names[action]) != 0)
		action++;
	with = action >= LATE ? 4 : 3; /* words without the count */
	if (action > TAKE || count < with || count > with + 1 || proxy.speech == BYTES ||
	    (proxy.speech == POSTGRES && action != LOSE))
		return false;
	rule.action = (enum action)action;
	snprintf(rule.word, sizeof rule.word, "%s", word[2]);
	if (action == LATE)
		rule.ms = atoll(word[3]);
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
	char *word[WORDS_MOST], *rest = NULL;
	struct link *link;
	int count = 0, connections = 0;

	for (char *w = strtok_r(line, " ", &rest); w && count < WORDS_MOST; w = strtok_r(NULL, " ", &rest))
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

static void on_control(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int length, void *arg)
{
	struct bufferevent *bev = bufferevent_socket_new(proxy.base, fd, BEV_OPT_CLOSE_ON_FREE);

	(void)listener, (void)from, (void)length, (void)arg;
	bufferevent_setcb(bev, on_told, NULL, on_told_all, NULL);
	bufferevent_enable(bev, EV_READ | EV_WRITE);
}

/* ---- the program ---- */

/* A path is a Unix socket, HOST:PORT an IPv4 address. */
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
	struct event *term, *interrupt;
	struct rule *rule, *next;
	struct link *link, *other;
	char address[64];

	signal(SIGPIPE, SIG_IGN);
	proxy.base = event_base_new();
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

/* Gives a running proxy a command. Exit code 0 if it said ok. */
static int tell(const char *control, int count, char **word)
{
	struct sockaddr_storage address;
	socklen_t length = address_read(control, &address);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char answer[LINE_MOST] = "";
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
