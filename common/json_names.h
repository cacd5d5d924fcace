/* How the contract's fields and enumerations are called in JSON, for json.c and json_read.c. */
#ifndef REEVE_COMMON_JSON_NAMES_H
#define REEVE_COMMON_JSON_NAMES_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

enum { JSON_NAME_BYTES = 64 };

/* True for a field that holds a point in time: a 64-bit number named …_us. */
bool json_is_time(const ProtobufCFieldDescriptor *field);

/* The field's name in JSON: without "_us" for times. Returns `out`. */
const char *json_field_name(const ProtobufCFieldDescriptor *field, char out[JSON_NAME_BYTES]);

/* The message's field of this JSON name, or NULL. */
const ProtobufCFieldDescriptor *json_field_by_name(const ProtobufCMessageDescriptor *descriptor, const char *name);

/* The word for a value: its name in lower case behind the prefix that all of the enumeration share. False: there is no
 * such value. */
bool json_enum_word(const ProtobufCEnumDescriptor *descriptor, int number, char out[JSON_NAME_BYTES]);

/* Writes "queued, executing, failed" into `out` and returns it. */
const char *json_enum_words(const ProtobufCEnumDescriptor *descriptor, char *out, size_t size);

/* The value of a word. False: there is none. */
bool json_enum_number(const ProtobufCEnumDescriptor *descriptor, const char *word, int *number);

/* The size of one element of a repeated field. */
size_t json_element_size(ProtobufCType type);

#endif
