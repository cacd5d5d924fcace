/* The dashboard's files, which the build has compressed (web/embed.sh). Only complete paths of the table are found. */
#include "manager/http/http_internal.h"

#include <http_parser.h>
#include <stdlib.h>
#include <string.h>
#include <web/files.h>

enum { FILE_MAX_BYTES = 1 << 20 };

/* The page runs only the manager's own scripts, calls only the manager, sends its address to nobody, and stands in no
 * other page's frame. With trusted types no script can make HTML of text. */
static const char headers[] =
    "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'\r\n"
    "cross-origin-opener-policy: same-origin\r\n"
    "cross-origin-resource-policy: same-origin\r\n"
    "referrer-policy: no-referrer\r\n"
    "vary: accept-encoding\r\n"
    "x-frame-options: DENY\r\n";

static struct frame *show(const struct http_api *api, uint32_t form, const struct web_file *file)
{
	struct http_reply reply = {
	    .status = HTTP_STATUS_OK,
	    .form = form,
	    .type = file->type,
	    .headers = headers,
	    .cache = strcmp(file->path, "/") == 0 ? "no-cache" : "public, max-age=31536000, immutable",
	    .content = file->bytes,
	    .length = file->length,
	    .gzipped = true,
	};
	struct reeve_error error;
	struct frame *frame;
	uint8_t *plain;

	if (form & FORM_GZIP)
		return http_reply(api, &reply);
	reply.gzipped = false;
	plain = http_gunzip(file->bytes, file->length, FILE_MAX_BYTES, &reply.length, &error);
	reply.content = plain;
	frame = http_reply(api, &reply);
	free(plain);
	return frame;
}

struct frame *http_serve_web(const struct http_api *api, uint32_t form, const char *path, size_t length)
{
	for (const struct web_file *file = web_files; file->path; file++)
		if (strlen(file->path) == length && !strncmp(file->path, path, length))
			return show(api, form, file);
	return NULL;
}
