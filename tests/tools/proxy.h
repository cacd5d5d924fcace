/*
 * The insides of reeve-test-proxy (proxy.c says what it does): one libevent loop, and one struct for all of it.
 *
 * A link is a connection with its two ways. What arrives on one is cut into messages (proxy_messages.c), which the
 * rules may treat, and put on its way as its direction is treated now (proxy_network.c).
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
enum action { LOSE, DOUBLE, LATE, COPY, TAKE };

/* What is on its way: bytes, or the end of the stream. */
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
	bool robbed;  /* bytes have vanished */
	bool greeted; /* past what comes before the first message */
	bool losing;  /* postgres: what comes vanishes, up to the answer's end */
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

/* Says what is wrong with errno, and ends the program. */
void die(const char *what) __attribute__((noreturn));

/* ---- proxy_network.c ---- */

/* Takes a new connection, and connects it on; evconnlistener's callback. */
void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int length, void *arg);

/* For the event proxy.sweep: frees the links that are dying. */
void on_sweep(evutil_socket_t fd, short what, void *arg);

/* Resets both ends; the link is freed a loop later. */
void link_reset(struct link *link);
void link_free(struct link *link);

/* Puts bytes, or the end, on their way as the direction is treated now. Takes the bytes. */
void way_send(struct way *way, struct evbuffer *bytes, bool end);

/* Puts bytes on their way so much later, while newer ones pass. Takes them. */
void way_send_late(struct way *way, struct evbuffer *bytes, int64_t ms);

/* Sends what is due, and sets the timer for the rest. */
void way_pump(struct way *way);

/* ---- proxy_messages.c ---- */

/* Cuts what has arrived on a way into messages and sends them on, as the rules say; a bufferevent's read callback. */
void on_read(struct bufferevent *bev, void *arg);

#endif
