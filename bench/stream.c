/*
 * Connections to a manager on this machine come from many loopback addresses, as if from many hosts: with a single one,
 * the kernel's search for a free port is slow when tens of thousands are in use or were recently.
 */
#include "bench/stream.h"

#include "bench/report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_MS = 10000, SOURCES = 64 };

static int socket_for(const struct sockaddr_storage *address)
{
	static uint32_t last;
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
	struct sockaddr_in from = {.sin_family = AF_INET};

	if (fd < 0)
		give_up("no socket: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	if (address->ss_family != AF_INET ||
	    ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET)
		return fd;
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + ++last % SOURCES);
	if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes) ||
	    bind(fd, (struct sockaddr *)&from, sizeof from))
		give_up("no source address: %s", strerror(errno));
	return fd;
}

static SSL_CTX *context_new(void)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	const char *ca = getenv("REEVE_TLS_CA"), *certificate = getenv("REEVE_TLS_CERT"), *key = getenv("REEVE_TLS_KEY");

	if (!ca || !certificate || !key || SSL_CTX_load_verify_locations(context, ca, NULL) != 1 ||
	    SSL_CTX_use_certificate_chain_file(context, certificate) != 1 ||
	    SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
		give_up("no certificates in REEVE_TLS_CA, REEVE_TLS_CERT and REEVE_TLS_KEY");
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	return context;
}

static SSL *secure_new(const char *protocol)
{
	static SSL_CTX *context;
	unsigned char list[32];
	SSL *ssl;

	context = context ? context : context_new();
	ssl = SSL_new(context);
	if (protocol) {
		list[0] = (unsigned char)strlen(protocol);
		memcpy(list + 1, protocol, list[0]);
		SSL_set_alpn_protos(ssl, list, list[0] + 1U);
	}
	return ssl;
}

struct bufferevent *stream_connect(
    struct event_base *base, const char *url, const char *plain, const char *secure, const char *protocol)
{
	bool tls = !strncmp(url, secure, strlen(secure));
	struct sockaddr_storage address;
	int length = sizeof address, fd;
	struct bufferevent *stream;

	if ((!tls && strncmp(url, plain, strlen(plain)) != 0) ||
	    evutil_parse_sockaddr_port(url + strlen(tls ? secure : plain), (struct sockaddr *)&address, &length))
		give_up("no address: %s", url);
	fd = socket_for(&address);
	if (!tls) {
		stream = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
		if (bufferevent_socket_connect(stream, (struct sockaddr *)&address, length) < 0)
			give_up("cannot connect to %s: %s", url, strerror(errno));
		return stream;
	}
	if ((connect(fd, (struct sockaddr *)&address, (socklen_t)length) && errno != EINPROGRESS) ||
	    poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, CONNECT_MS) != 1)
		give_up("cannot connect to %s: %s", url, strerror(errno));
	return bufferevent_openssl_socket_new(
	    base, fd, secure_new(protocol), BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
}
