/* Errors. The codes' names come from the contract's descriptor of the enumeration. */
#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool error_set(struct reeve_error *error, reeve_status code, const char *format, ...)
{
	va_list args;

	if (!error)
		return false;
	error->code = code;
	/* Format into a copy first: an argument may be this error's old message. */
	char text[sizeof error->message];

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	memcpy(error->message, text, sizeof text);
	return false;
}

const char *status_name(reeve_status code)
{
	const ProtobufCEnumValue *value =
	    protobuf_c_enum_descriptor_get_value(&reeve__v1__status_code__descriptor, (int)code);

	return value ? value->name + strlen("STATUS_CODE_") : "UNKNOWN";
}
