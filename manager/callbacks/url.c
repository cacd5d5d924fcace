/* Uses libcurl's URL functions. */
#include "manager/callbacks/url.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

/* Parses a URL. Returns NULL and sets *problem if it is invalid. Free the result with curl_url_cleanup(). */
static CURLU *parse(const char *url, const char **problem)
{
	CURLU *parts = curl_url();
	CURLUcode code = parts ? curl_url_set(parts, CURLUPART_URL, url, CURLU_DISALLOW_USER) : CURLUE_OUT_OF_MEMORY;
	if (code == CURLUE_OK)
		return parts;
	*problem = code == CURLUE_USER_NOT_ALLOWED
	    ? "has a user's name in it; leave that out: callback_secret signs the calls"
	    : code == CURLUE_BAD_PORT_NUMBER ? "has an invalid port; ports are from 0 to 65535"
	    : code == CURLUE_NO_HOST         ? "has no host"
	                                     : "is not a URL; one looks like https://example.org/path";
	curl_url_cleanup(parts);
	return NULL;
}

/* Returns the rest after "http://" or "https://", or NULL if the URL begins with neither. libcurl's parser would guess
 * a missing scheme, and accept a third slash. */
static const char *after_scheme(const char *url)
{
	if (!strncasecmp(url, "http://", 7))
		return url + 7;
	return !strncasecmp(url, "https://", 8) ? url + 8 : NULL;
}

const char *callback_url_problem(const char *url)
{
	if (!*url)
		return "is empty";
	if (strlen(url) > CALLBACK_URL_MAX)
		return "is longer than 2048 bytes";
	for (const char *c = url; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			return "holds a space or a control character";
	const char *rest = after_scheme(url), *problem = NULL;
	if (!rest)
		return "does not begin with http:// or https://";
	if (!*rest || strchr("/?#:", *rest))
		return "has no host";
	curl_url_cleanup(parse(url, &problem));
	return problem;
}

const char *callback_url_site(const char *url, char out[CALLBACK_SITE_BYTES])
{
	const char *problem;
	char *scheme = NULL, *host = NULL, *port = NULL;
	CURLU *parts = parse(url, &problem);
	snprintf(out, CALLBACK_SITE_BYTES, "an invalid URL");
	if (parts && curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	    curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK) {
		curl_url_get(parts, CURLUPART_PORT, &port, 0);
		snprintf(out, CALLBACK_SITE_BYTES, "%s://%s%s%s", scheme, host, port ? ":" : "", port ? port : "");
	}
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	curl_url_cleanup(parts);
	return out;
}

/* Returns true if a host matches pattern[0..length), and its port if the pattern has one: "example.org:8443",
 * "[2001:db8::1]:8443". "*.example.com" matches all names below example.com. */
static bool host_matches(const char *host, const char *port, const char *pattern, size_t length)
{
	size_t n = strlen(host);
	const char *colon = memrchr(pattern, ':', length);
	/* Of an IPv6 address only what follows the bracket is a port. */
	if (colon && colon > pattern && (colon[-1] == ']' || !memchr(pattern, ':', (size_t)(colon - pattern)))) {
		size_t digits = length - (size_t)(colon + 1 - pattern);
		if (digits != strlen(port) || memcmp(colon + 1, port, digits) != 0)
			return false;
		length = (size_t)(colon - pattern);
	}
	if (length > 2 && !strncmp(pattern, "*.", 2))
		return n >= length && !strncasecmp(host + n - (length - 1), pattern + 1, length - 1);
	return n == length && !strncasecmp(host, pattern, length);
}

bool callback_url_allowed(const char *url, const char *hosts)
{
	const char *problem;
	char *host = NULL, *port = NULL;
	bool allowed = !hosts;
	CURLU *parts = allowed ? NULL : parse(url, &problem);
	if (parts && curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
	    curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK)
		for (const char *at = hosts; !allowed && *at; at += strspn(at, ", ")) {
			size_t length = strcspn(at, ", ");
			allowed = length && host_matches(host, port, at, length);
			at += length;
		}
	curl_free(host);
	curl_free(port);
	curl_url_cleanup(parts);
	return allowed;
}
