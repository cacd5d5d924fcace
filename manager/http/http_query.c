/* The query of a GET: parameters, percent-encoded. */
#include "manager/http/http_internal.h"

#include "common/mem.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

/* Decodes `length` bytes. Returns NULL if they are invalid. */
static char *decode(const char *text, size_t length, size_t *decoded)
{
	char *out = mem_malloc(length + 1);
	size_t used = 0;

	for (size_t i = 0; i < length; i++) {
		int high = text[i] == '%' && i + 2 < length ? OPENSSL_hexchar2int((unsigned char)text[i + 1]) : -1;
		int low = high >= 0 ? OPENSSL_hexchar2int((unsigned char)text[i + 2]) : -1;

		if (text[i] == '%' && low < 0) {
			free(out);
			return NULL;
		}
		out[used++] = low >= 0 ? (char)(high << 4 | low) : text[i] == '+' ? ' ' : text[i];
		i += low >= 0 ? 2 : 0;
	}
	out[used] = '\0';
	*decoded = used;
	return out;
}

char *http_query_value(const char *query, const char *name, size_t *length)
{
	size_t named = strlen(name);

	while (*query) {
		size_t part = strcspn(query, "&#");

		if (part > named && !strncmp(query, name, named) && query[named] == '=')
			return decode(query + named + 1, part - named - 1, length);
		query += part;
		query += *query == '&';
		if (*query == '#')
			break;
	}
	return NULL;
}
