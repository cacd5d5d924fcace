/* The URLs that callbacks go to. They are read by the very parser that calls them, so that nothing is let through that is
 * understood otherwise later. */
#ifndef REEVE_MANAGER_CALLBACKS_URL_H
#define REEVE_MANAGER_CALLBACKS_URL_H

#include <stdbool.h>
#include <stddef.h>

enum { CALLBACK_URL_MOST = 2048, CALLBACK_SITE_BYTES = 300 };

/* Why `url` can't be called, as a phrase that follows the field's name ("is not a URL", "has no host"), or NULL if it
 * can. */
const char *callback_url_problem(const char *url);

/* "https://example.org:8443": where a good URL leads, without what may be secret in it. Returns `out`. */
const char *callback_url_site(const char *url, char out[CALLBACK_SITE_BYTES]);

/* Whether a good URL's host is in a list as --callback-hosts takes it: "example.org,*.example.com,10.0.0.7"; NULL: every
 * host is. */
bool callback_url_allowed(const char *url, const char *hosts);

#endif
