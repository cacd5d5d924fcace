/* The parts of the reader: json_read.c goes through objects and reads values of both forms; json_mapping.c reads the
 * values that only protobuf's mapping has. */
#ifndef REEVE_COMMON_JSON_INTERNAL_H
#define REEVE_COMMON_JSON_INTERNAL_H

#include "common/json.h"

/* One step of the path to the current value: "tasks", then [3], then "details". */
struct path {
	const struct path *parent; /* NULL: the whole value */
	enum json_form form;
	const char *name; /* NULL: the step is `index` */
	size_t index;
};

/* Sets *error to the problem of a value. Always returns false. */
bool json_refuse(struct reeve_error *error, const struct path *path, const char *problem);

/* Read a value in protobuf's mapping. */
bool json_mapped_integer(const json_t *value, json_int_t *number, const struct path *path, struct reeve_error *error);
bool json_mapped_real(const json_t *value, double *number, const struct path *path, struct reeve_error *error);
bool json_mapped_bytes(
    const json_t *value, ProtobufCBinaryData *bytes, const struct path *path, struct reeve_error *error);
bool json_mapped_enum(const json_t *value, const ProtobufCEnumDescriptor *descriptor, int *number,
    const struct path *path, struct reeve_error *error);

#endif
