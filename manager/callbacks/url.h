/* Checks of the URLs of callbacks. They use libcurl's parser, which also makes the calls, so that a URL means the same
 * in the check and in the call. */
#ifndef REEVE_MANAGER_CALLBACKS_URL_H
#define REEVE_MANAGER_CALLBACKS_URL_H

#include <stdbool.h>
#include <stddef.h>

enum { CALLBACK_URL_MAX = 2048, CALLBACK_SITE_BYTES = 300 };

/* Returns why `url` cannot be called, as a phrase to follow the field's name ("is not a URL", "has no host"), or NULL
 * if it can. */
const char *callback_url_problem(const char *url);

/* Writes the scheme, host and port of a valid URL, as in "https://example.org:8443", without its parts that may be
 * secret, into `out` and returns it. */
const char *callback_url_site(const char *url, char out[CALLBACK_SITE_BYTES]);

/* Returns true if a valid URL's host is in `hosts`, a list as in --callback-hosts
 * ("example.org,*.example.com:8443,10.0.0.7"), with that port if the item has one. NULL allows every host. */
bool callback_url_allowed(const char *url, const char *hosts);

#endif
