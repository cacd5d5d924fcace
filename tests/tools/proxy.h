/*
 * The internals of reeve-test-proxy (described in proxy.c): one libevent loop, and one struct for everything.
 *
 * A link is a connection with its two directions ("ways"). The bytes that arrive on one are cut into messages
 * (proxy_messages.c), to which rules may apply, and sent on according to the direction's current treatment
 * (proxy_network.c).
 */
#ifndef TESTS_TOOLS_PROXY_H
#define TESTS_TOOLS_PROXY_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum speech { BYTES, SP, POSTGRES };
enum direction { UP, DOWN };
enum treatment { PASS, DROP, HOLD, DELAY };
enum action { LOSE, DOUBLE, LATE, COPY, TAKE, CONTRACT };

/* Bytes on their way, or the end of the stream. */
struct unit {
	struct unit *prev, *next;
	int64_t due_us;
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
	bool robbed;  /* bytes were dropped */
	bool greeted; /* the bytes before the first message have passed */
	bool losing;  /* postgres: arriving bytes are dropped, up to the end of the answer */
};

/* A call to whose answer a rule applies. */
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
	uint32_t contract;
	int left; /* to how many more calls it applies */
};

struct proxy {
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
};

extern struct proxy proxy;

/* Prints the message of errno and ends the program. */
void die(const char *what) __attribute__((noreturn));

/* ---- proxy_network.c ---- */

/* Accepts a new connection and connects it to the target; evconnlistener's callback. */
void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int length, void *arg);

/* Frees the links that are dying; for the event proxy.sweep. */
void on_sweep(evutil_socket_t fd, short what, void *arg);

/* Resets both ends; the link is freed in the next iteration of the loop. */
void link_reset(struct link *link);
void link_free(struct link *link);

/* Sends bytes, or the end of the stream, according to the direction's current treatment. Takes ownership of the
 * bytes. */
void way_send(struct way *way, struct evbuffer *bytes, bool end);

/* Sends bytes `ms` milliseconds later, while newer ones pass. Takes ownership of them. */
void way_send_late(struct way *way, struct evbuffer *bytes, int64_t ms);

/* Sends what is due, and sets the timer for the rest. */
void way_pump(struct way *way);

/* ---- proxy_messages.c ---- */

/* Cuts the bytes that have arrived on a way into messages, and sends them on according to the rules; a bufferevent's
 * read callback. */
void on_read(struct bufferevent *bev, void *arg);

#endif
