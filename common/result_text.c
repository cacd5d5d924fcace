#include "common/result_text.h"

#include "common/json_names.h"
#include "common/mem.h"
#include "common/utf8.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static const size_t prefix = sizeof RESULT_BINARY - 1;

char *result_encode(const void *result, size_t length)
{
	bool begins = length >= prefix && !memcmp(result, RESULT_BINARY, prefix);
	char *text;

	if (!begins && utf8_valid(result, length))
		return NULL;
	text = mem_malloc(prefix + (length + 2) / 3 * 4 + 1);
	memcpy(text, RESULT_BINARY, prefix);
	EVP_EncodeBlock((unsigned char *)text + prefix, result, (int)length);
	return text;
}

char *result_decode(const char *text, size_t *length)
{
	ProtobufCBinaryData bytes = {0};

	if (strncmp(text, RESULT_BINARY, prefix) != 0)
		return NULL;
	if (!json_base64_read(text + prefix, strlen(text + prefix), &bytes)) {
		free(bytes.data);
		return NULL;
	}
	*length = bytes.len;
	bytes.data = mem_realloc(bytes.data, bytes.len + 1);
	bytes.data[bytes.len] = '\0';
	return (char *)bytes.data;
}
