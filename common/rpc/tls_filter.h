/*
 * The TLS of one connection, without its socket: bytes of the other end go in, bytes for it come out, and between them
 * are the bytes of the caller. Not thread-safe.
 */
#ifndef REEVE_COMMON_RPC_TLS_FILTER_H
#define REEVE_COMMON_RPC_TLS_FILTER_H

#include "common/rpc/tls.h"

#include <openssl/ssl.h>
#include <stddef.h>

/* Bytes in memory, from `start` to `end`. */
struct tls_bytes {
	uint8_t *data;
	size_t start, end, capacity;
};

struct tls_filter {
	enum tls_end end;
	SSL *ssl;
	bool begun;               /* the first byte of the other end has been checked */
	bool uncertified;         /* the other end should have shown a certificate, and has shown none */
	unsigned generation;      /* of the files by which the other end was verified last */
	struct tls_bytes in, out; /* received and not decrypted; encrypted and not sent */
	size_t idle_bytes;        /* decrypted without content for the caller since the last content */
	int64_t content_bytes;    /* decrypted for the caller */
	int64_t key_updates;      /* changes of the other end's keys */
	int64_t expires;          /* when the first certificate of the other end's chain expires, in seconds since 1970 */
	int problem;              /* enum tls_problem; set when a step fails */
	char peer[256];           /* the URI of the other end's certificate, once verified; else "" */
	char detail[160];         /* of the problem, for people; or "" */
};

enum tls_step {
	TLS_DONE,
	TLS_MORE,   /* needs more bytes from the other end */
	TLS_END,    /* the other end has closed the connection in an orderly way */
	TLS_FAILED, /* `problem` has the reason; `out` may have an alert */
};

/* The filter is zeros, except that `in` may have bytes. `host`: for a client, the host of the URL, which the server's
 * certificate must name. */
void tls_filter_open(struct tls_filter *filter, struct tls *tls, const char *host);

/* Frees what it holds. It may be zeros. */
void tls_filter_close(struct tls_filter *filter);

/* Appends bytes of the other end to `in`. */
void tls_filter_feed(struct tls_filter *filter, const void *bytes, size_t length);

/* Continues the handshake. */
enum tls_step tls_filter_handshake(struct tls_filter *filter);

/* Decrypts up to `length` bytes, from 1, to `place`. TLS_DONE: *count has their number. */
enum tls_step tls_filter_read(struct tls_filter *filter, void *place, size_t length, size_t *count);

/* Encrypts bytes, from 1. TLS_DONE: all of them are in `out`. */
enum tls_step tls_filter_write(struct tls_filter *filter, const void *bytes, size_t length);

/* Checks the other end's certificate again: its expiry, and with new files all of it. Returns an enum tls_problem.
 * tls_filter_is_due: returns whether that is due, which takes no time. */
int tls_filter_check(struct tls_filter *filter, struct tls *tls);
bool tls_filter_is_due(const struct tls_filter *filter, struct tls *tls, int64_t now_s);

void tls_bytes_append(struct tls_bytes *bytes, const void *more, size_t length);
void tls_bytes_free(struct tls_bytes *bytes);

static inline size_t tls_bytes_count(const struct tls_bytes *bytes)
{
	return bytes->end - bytes->start;
}

#endif
