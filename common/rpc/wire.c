/*
 * Walks the wire bytes of a message by its descriptor. It allocates nothing and keeps no record of valid fields: only
 * after an error does it count the fields before it again, for the error's path.
 */
#include "common/rpc/wire.h"

#include "common/rpc/varint.h"
#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 256, FIELD_MAX = (1 << 29) - 1, TAG_BYTES = 5, LENGTH_BYTES = 5 };

/* How protobuf-c 1.4 unpacks: it records each field of a message, the first ones on its stack, the others in blocks,
 * each for twice as many fields as the previous one. */
enum { NOTE_BYTES = 32, NOTES_ON_STACK = 16, PIECE_BYTES = 16 };

/* Above this size merges are no longer counted, so that the sum cannot overflow. No machine has this much memory. */
static const size_t MEMORY_MAX = (size_t)1 << 48;

/* Counts of one check, over all messages together. */
struct tally {
	unsigned fields; /* known fields */
	unsigned elements, unknown;
	size_t memory; /* bytes when unpacked */
};

/* A message being walked, and its position in the message around it. */
struct cursor {
	const struct cursor *parent;
	const ProtobufCMessageDescriptor *descriptor;
	const uint8_t *begin, *end;
	const uint8_t *field_begin;            /* the tag of the current field */
	const ProtobufCFieldDescriptor *field; /* the current field; NULL: unknown */
	uint32_t number;
	uint32_t last_number; /* of the previous field */
	uint64_t seen;        /* submessages found, by field index; all from 63 on share a bit */
	size_t memory_before; /* the tally's memory at the start of this message */
	unsigned fields;      /* in this message */
	int depth;
	struct tally *tally;
	struct reeve_error *error;
};

/* A field on the wire. */
struct piece {
	uint32_t number;
	unsigned wire_type;
	const uint8_t *value; /* of LENGTH: the bytes after the length */
	size_t length;
};

/* Reads the field at *at and advances. Returns NULL, or what is wrong with it. */
static const char *read_piece(const uint8_t **at, const uint8_t *end, struct piece *piece)
{
	uint64_t tag, length;
	size_t used = varint_read(*at, end, TAG_BYTES, &tag);

	if (!used || tag > UINT32_MAX)
		return "is followed by a broken tag";
	piece->number = (uint32_t)(tag >> 3);
	piece->wire_type = tag & 7;
	if (piece->number == 0)
		return "is followed by a field numbered 0";
	*at += used;
	piece->value = *at;
	switch (piece->wire_type) {
	case WIRE_VARINT:
		used = varint_read(*at, end, VARINT_MAX_BYTES, &length);
		if (!used)
			return "holds a number that is cut off or too long";
		piece->length = used;
		break;
	case WIRE_64: piece->length = 8; break;
	case WIRE_32: piece->length = 4; break;
	case WIRE_LENGTH:
		used = varint_read(*at, end, LENGTH_BYTES, &length);
		if (!used || length > INT32_MAX)
			return "has a broken length";
		piece->value += used;
		piece->length = length;
		break;
	default: return "has an unknown wire type";
	}
	if ((size_t)(end - piece->value) < piece->length)
		return "is cut off";
	*at = piece->value + piece->length;
	return NULL;
}

/* Returns how many fields with the current field's number come before it in this message. */
static unsigned index_in(const struct cursor *cursor)
{
	unsigned index = 0;
	const uint8_t *at = cursor->begin;
	struct piece piece;

	while (at < cursor->field_begin && !read_piece(&at, cursor->end, &piece))
		index += piece.number == cursor->number;
	return index;
}

/* Writes the path of the current field and returns its length. */
static size_t write_path(const struct cursor *cursor, char *out, size_t size)
{
	size_t used = 0;

	if (cursor->parent) {
		used = write_path(cursor->parent, out, size);
		used += snprintf(out + used, size - used, ".");
	}
	if (used >= size)
		return size - 1;
	if (!cursor->field)
		used += snprintf(out + used, size - used, "field %u", cursor->number);
	else if (cursor->field->label == PROTOBUF_C_LABEL_REPEATED)
		used += snprintf(out + used, size - used, "%s[%u]", cursor->field->name, index_in(cursor));
	else
		used += snprintf(out + used, size - used, "%s", cursor->field->name);
	return used < size ? used : size - 1;
}

/* Sets the error for the current field. Always returns false. */
static bool fail(const struct cursor *cursor, const char *problem)
{
	char path[PATH_BYTES];

	if (!cursor->error)
		return false;
	write_path(cursor, path, sizeof path);
	return error_set(cursor->error, STATUS(INVALID_ARGUMENT), "%s %s", path, problem);
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *descriptor, uint32_t number)
{
	/* Nearly all messages number their fields 1, 2, 3 …, and the descriptor has them in this order. */
	if (number <= descriptor->n_fields && descriptor->fields[number - 1].id == number)
		return &descriptor->fields[number - 1];
	return protobuf_c_message_descriptor_get_field(descriptor, number);
}

static unsigned wire_type_of(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT: return WIRE_32;
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE: return WIRE_64;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE: return WIRE_LENGTH;
	default: return WIRE_VARINT;
	}
}

/* Rounds a size up to the allocator's granularity. */
static size_t pieces(size_t bytes)
{
	return (bytes + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_BYTES;
}

/* Counts the merge of a repeated occurrence of a singular submessage: each time, protobuf-c allocates new arrays for
 * both occurrences together. Counts all of the outer message once more, which is an upper bound. */
static void count_merge(struct cursor *cursor)
{
	unsigned index = (unsigned)(cursor->field - cursor->descriptor->fields);
	uint64_t bit = UINT64_C(1) << (index < 63 ? index : 63);
	struct tally *tally = cursor->tally;

	if (cursor->seen & bit && tally->memory < MEMORY_MAX)
		tally->memory += tally->memory - cursor->memory_before;
	cursor->seen |= bit;
}

/* Returns the bytes of one element in the array of a repeated field. */
static size_t element_bytes(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_DOUBLE: return 8;
	default: return 4;
	}
}

/* Checks a packed field: all values of a repeated number, one after the other. */
static const char *check_packed(unsigned wire_type, const struct piece *piece, size_t *count)
{
	const uint8_t *at = piece->value, *end = at + piece->length;
	uint64_t value;

	*count = piece->length / (wire_type == WIRE_32 ? 4 : 8);
	if (wire_type == WIRE_32)
		return piece->length % 4 ? "is cut off" : NULL;
	if (wire_type == WIRE_64)
		return piece->length % 8 ? "is cut off" : NULL;
	for (*count = 0; at < end; ++*count) {
		size_t used = varint_read(at, end, VARINT_MAX_BYTES, &value);

		if (!used)
			return "holds a number that is cut off or too long";
		at += used;
	}
	return NULL;
}

static const char *check_string(const struct piece *piece)
{
	if (utf8_valid((const char *)piece->value, piece->length))
		return NULL;
	return memchr(piece->value, 0, piece->length) ? "holds a NUL byte" : "is not valid UTF-8";
}

static bool check_message(struct cursor *cursor);

static bool check_field(struct cursor *cursor, const struct piece *piece)
{
	const ProtobufCFieldDescriptor *field = cursor->field;
	const char *problem = NULL;
	size_t count;
	unsigned expected;

	if (!field)
		cursor->tally->memory += pieces(sizeof(ProtobufCMessageUnknownField)) + pieces(piece->length);
	else if (field->label == PROTOBUF_C_LABEL_REPEATED)
		cursor->tally->memory += element_bytes(field->type) + (cursor->number != cursor->last_number ? PIECE_BYTES : 0);
	cursor->last_number = cursor->number;
	if (!field)
		return ++cursor->tally->unknown <= WIRE_MAX_UNKNOWN || fail(cursor, "is one unknown field too many");
	expected = wire_type_of(field->type);
	if (piece->wire_type != expected) {
		if (field->label != PROTOBUF_C_LABEL_REPEATED || piece->wire_type != WIRE_LENGTH)
			return fail(cursor, "has the wrong wire type");
		problem = check_packed(expected, piece, &count);
		cursor->tally->memory += count * element_bytes(field->type);
		return !problem || fail(cursor, problem);
	}
	if (++cursor->tally->fields > WIRE_MAX_FIELDS)
		return fail(cursor, "is one field too many for one message");
	/* A submessage counts whatever its label: each copy of a singular one costs memory, too. */
	if (expected == WIRE_LENGTH &&
	    (field->label == PROTOBUF_C_LABEL_REPEATED || field->type == PROTOBUF_C_TYPE_MESSAGE) &&
	    ++cursor->tally->elements > WIRE_MAX_ELEMENTS)
		return fail(cursor, "is one element too many for one message");
	if (expected == WIRE_LENGTH && field->type != PROTOBUF_C_TYPE_MESSAGE)
		cursor->tally->memory += pieces(piece->length + 1);
	if (field->type == PROTOBUF_C_TYPE_STRING) {
		problem = check_string(piece);
		return !problem || fail(cursor, problem);
	}
	if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
		struct cursor inner = {
		    .parent = cursor,
		    .descriptor = field->descriptor,
		    .begin = piece->value,
		    .end = piece->value + piece->length,
		    .depth = cursor->depth + 1,
		    .tally = cursor->tally,
		    .error = cursor->error,
		};

		if (field->label != PROTOBUF_C_LABEL_REPEATED)
			count_merge(cursor);
		return inner.depth <= WIRE_MAX_DEPTH ? check_message(&inner) : fail(cursor, "is nested too deep");
	}
	return true;
}

static bool check_message(struct cursor *cursor)
{
	const uint8_t *at = cursor->begin;
	unsigned noted = NOTES_ON_STACK, block = NOTES_ON_STACK;

	cursor->memory_before = cursor->tally->memory;
	cursor->tally->memory += pieces(cursor->descriptor->sizeof_message);
	while (at < cursor->end) {
		struct piece piece = {0};
		const char *problem;

		if (cursor->fields++ == noted) {
			block *= 2;
			noted += block;
			cursor->tally->memory += (size_t)block * NOTE_BYTES;
		}

		cursor->field_begin = at;
		problem = read_piece(&at, cursor->end, &piece);
		if (problem && piece.number == 0) {
			/* There is no field to name: name the previous one, or the message. */
			if (cursor->field)
				return fail(cursor, problem);
			if (cursor->parent)
				return fail(cursor->parent, "begins with a broken field");
			return error_set(cursor->error, STATUS(INVALID_ARGUMENT), "the message is not a well-formed %s",
			    cursor->descriptor->short_name);
		}
		cursor->number = piece.number;
		cursor->field = find_field(cursor->descriptor, piece.number);
		if (problem)
			return fail(cursor, problem);
		if (!check_field(cursor, &piece))
			return false;
	}
	return true;
}

bool wire_measure(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t length, size_t *memory,
    struct reeve_error *error)
{
	struct tally tally = {0};
	struct cursor cursor = {
	    .descriptor = descriptor,
	    .begin = bytes,
	    .end = bytes + length,
	    .depth = 1,
	    .tally = &tally,
	    .error = error,
	};

	if (!check_message(&cursor))
		return false;
	*memory = tally.memory;
	return true;
}

bool wire_check(
    const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t length, struct reeve_error *error)
{
	size_t memory;

	return wire_measure(descriptor, bytes, length, &memory, error);
}

ProtobufCMessage *wire_unpack(
    const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t length, struct reeve_error *error)
{
	ProtobufCMessage *message;

	if (!wire_check(descriptor, bytes, length, error))
		return NULL;
	message = protobuf_c_message_unpack(descriptor, NULL, length, bytes);
	if (!message)
		error_set(error, STATUS(INVALID_ARGUMENT), "the message is not a well-formed %s", descriptor->short_name);
	return message;
}
