/* libcurl sets the sockets that it waits for (on_socket) and a timeout (on_timer); the loop calls it when a socket is
 * ready (on_ready) or the timeout has passed (on_timeout). */
#include "manager/callbacks/http.h"

#include "common/mem.h"
#include "manager/callbacks/address.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Limits of what is read of an answer. */
enum { BODY_MAX = 64 << 10, HEAD_MAX = 64 << 10 };

struct http_post {
	struct http *http;
	CURL *easy;
	struct curl_slist *headers;
	char *body;
	size_t head_bytes, body_bytes;
	char problem[CURL_ERROR_SIZE];
	bool refused; /* an address of its host is not allowed */
	http_done *done;
	void *arg;
	struct http_post *prev, *next;
};

struct http {
	struct event_base *base;
	struct http_options options;
	CURLM *multi;
	struct event *alarm;
	struct http_post *posts; /* utlist: in flight */
};

/* These limit the length of an answer. libcurl ends the call if they return anything but `length`. */
static size_t on_head(char *data, size_t size, size_t length, void *arg)
{
	struct http_post *post = arg;
	(void)data, (void)size;
	post->head_bytes += length;
	return post->head_bytes > HEAD_MAX ? 0 : length;
}

static size_t on_body(char *data, size_t size, size_t length, void *arg)
{
	struct http_post *post = arg;
	(void)data, (void)size;
	post->body_bytes += length;
	return post->body_bytes > BODY_MAX ? 0 : length;
}

static void post_free(struct http_post *post)
{
	DL_DELETE(post->http->posts, post);
	curl_multi_remove_handle(post->http->multi, post->easy);
	curl_easy_cleanup(post->easy);
	curl_slist_free_all(post->headers);
	free(post->body);
	free(post);
}

static void post_end(struct http_post *post, CURLcode code)
{
	long status = 0;
	curl_off_t retry_after = 0;
	curl_easy_getinfo(post->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(post->easy, CURLINFO_RETRY_AFTER, &retry_after);
	/* After the status has arrived, an error in the rest does not matter, unless the head is too long: then it is no
	 * answer. */
	bool answered = status >= 200 && post->head_bytes <= HEAD_MAX;
	const struct http_answer answer = {
	    .status = answered ? (int)status : 0,
	    .problem = answered               ? ""
	        : post->head_bytes > HEAD_MAX ? "the answer's head is longer than 64 KiB"
	        : post->refused  ? "the host has a loopback, link-local or private address (--callback-private)"
	        : *post->problem ? post->problem
	                         : curl_easy_strerror(code),
	    .retry_after_ms = retry_after > 0 && retry_after < INT32_MAX ? (int64_t)retry_after * 1000 : 0,
	};
	post->done(post->arg, &answer);
	post_free(post);
}

/* Ends the calls that libcurl has finished. */
static void reap(struct http *http)
{
	CURLMsg *message;
	int left;
	while ((message = curl_multi_info_read(http->multi, &left))) {
		struct http_post *post;
		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&post);
		post_end(post, message->data.result);
	}
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct http *http = arg;
	int running;
	curl_multi_socket_action(
	    http->multi, fd, (what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0), &running);
	reap(http);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct http *http = arg;
	int running;
	(void)fd, (void)what;
	curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	reap(http);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket)
{
	struct http *http = arg;
	struct event *event = socket;
	(void)easy;
	if (event)
		event_free(event);
	event = NULL;
	if (what != CURL_POLL_REMOVE) {
		short events = (short)((what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0));
		event = event_new(http->base, fd, events | EV_PERSIST, on_ready, http);
		event_add(event, NULL);
	}
	curl_multi_assign(http->multi, fd, event);
	return 0;
}

static int on_timer(CURLM *multi, long wait_ms, void *arg)
{
	struct http *http = arg;
	const struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
	(void)multi;
	if (wait_ms < 0)
		event_del(http->alarm);
	else
		event_add(http->alarm, &wait);
	return 0;
}

struct http *http_create(struct event_base *base, const struct http_options *options, struct reeve_error *error)
{
	const curl_version_info_data *version = curl_version_info(CURLVERSION_NOW);
	if (!(version->features & CURL_VERSION_ASYNCHDNS) || !(version->features & CURL_VERSION_SSL)) {
		error_set(error, STATUS(FAILED_PRECONDITION),
		    "this libcurl (%s) cannot do TLS, or would block while it looks names up", version->version);
		return NULL;
	}
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		error_set(error, STATUS(INTERNAL), "libcurl could not be set up");
		return NULL;
	}
	struct http *http = mem_calloc(1, sizeof *http);
	http->base = base;
	http->options = *options;
	http->alarm = evtimer_new(base, on_timeout, http);
	http->multi = curl_multi_init();
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
	curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)options->connections);
	return http;
}

void http_destroy(struct http *http)
{
	struct http_post *post, *tmp;
	if (!http)
		return;
	DL_FOREACH_SAFE (http->posts, post, tmp)
		post_free(post);
	curl_multi_cleanup(http->multi);
	event_free(http->alarm);
	free(http);
	curl_global_cleanup();
}

/* Opens a socket for an address that the host's name has at this moment. */
static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct http_post *post = arg;
	(void)purpose;
	post->refused = !post->http->options.private && callback_address_private(&address->addr);
	return post->refused ? CURL_SOCKET_BAD
	                     : socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void post_set(struct http_post *post, const char *url, size_t length)
{
	const struct http_options *options = &post->http->options;
	CURL *easy = post->easy;
	curl_easy_setopt(easy, CURLOPT_PRIVATE, post);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, post->problem);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* A timeout must not wait for the thread that looks up a name. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)options->timeout_ms);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, post);
	curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* none from the environment: it would connect to any address */
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "Reeve/" REEVE_VERSION);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, post->headers);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, post->body);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, post);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, post);
	/* Without a folder of certificates, libcurl caches those of the file in memory for all calls. */
	curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	if (options->ca_file)
		curl_easy_setopt(easy, CURLOPT_CAINFO, options->ca_file);
}

void http_post(struct http *http, const char *url, const char *const *headers, const char *body, size_t length,
    http_done *done, void *arg)
{
	struct http_post *post = mem_calloc(1, sizeof *post);
	post->http = http;
	post->easy = curl_easy_init();
	post->done = done;
	post->arg = arg;
	post->body = mem_malloc(length + 1);
	memcpy(post->body, body, length);
	for (; *headers; headers++)
		post->headers = curl_slist_append(post->headers, *headers);
	/* Send no Expect header: some servers never answer it. */
	post->headers = curl_slist_append(post->headers, "Expect:");
	post_set(post, url, length);
	DL_APPEND(http->posts, post);
	curl_multi_add_handle(http->multi, post->easy); /* this calls on_timer, which starts the call */
}
