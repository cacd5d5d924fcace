/* The names of the contract's fields and enumerations in JSON, for json.c and json_read.c. */
#ifndef REEVE_COMMON_JSON_NAMES_H
#define REEVE_COMMON_JSON_NAMES_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

enum { JSON_NAME_BYTES = 64 };

/* Returns true for a time: an int64 field named …_us. */
bool json_is_time(const ProtobufCFieldDescriptor *field);

/* Writes the field's name in JSON, for times without "_us", into `out` and returns it. */
const char *json_field_name(const ProtobufCFieldDescriptor *field, char out[JSON_NAME_BYTES]);

/* Writes the field's name in protobuf's JSON mapping into `out` and returns it: max_attempts is maxAttempts. */
const char *json_camel_name(const ProtobufCFieldDescriptor *field, char out[JSON_NAME_BYTES]);

/* Returns the field with this name in protobuf's mapping, or with this own name; or NULL. */
const ProtobufCFieldDescriptor *json_mapped_field(const ProtobufCMessageDescriptor *descriptor, const char *name);

/* Returns the field with this JSON name, or NULL. Durations (int64 fields named …_ms) are found without "_ms", too. */
const ProtobufCFieldDescriptor *json_field_by_name(const ProtobufCMessageDescriptor *descriptor, const char *name);

/* Writes a value's name into `out`: in lower case, without the prefix that all values of the enumeration share. Returns
 * false if there is no such value. */
bool json_enum_word(const ProtobufCEnumDescriptor *descriptor, int number, char out[JSON_NAME_BYTES]);

/* Writes the names of all values, such as "queued, executing, failed", into `out` and returns it. */
const char *json_enum_words(const ProtobufCEnumDescriptor *descriptor, char *out, size_t size);

/* Finds the value with this JSON name. Returns false if there is none. */
bool json_enum_number(const ProtobufCEnumDescriptor *descriptor, const char *word, int *number);

/* Reads base64, also that for URLs, with or without padding, into memory to be freed. Returns false if it is invalid;
 * then there may be memory, too. */
bool json_base64_read(const char *text, size_t length, ProtobufCBinaryData *bytes);

/* Returns the size in bytes of one element of a repeated field. */
size_t json_element_size(ProtobufCType type);

#endif
