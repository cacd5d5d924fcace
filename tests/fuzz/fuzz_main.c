/*
 * Runs a fuzz target without libFuzzer: `PROGRAM FOLDER COUNT [SEED]` takes all files of the folder, and COUNT changed
 * copies of them, the same in each run with the same seed. It writes each input to the file that REEVE_FUZZ_INPUT names
 * before it takes it, so that one that ends the process is there.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <string.h>

enum { FILES_MAX = 256, INPUT_MAX = 1 << 16 };

struct input {
	uint8_t *bytes;
	size_t length;
};

static struct input files[FILES_MAX];
static size_t n_files;

static uint32_t next_number(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33);
}

static struct input read_file(const char *folder, const char *name)
{
	struct input input = {.bytes = malloc(INPUT_MAX)};
	char path[4096];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "rb");
	FUZZ_CHECK(file, "cannot read %s", path);
	input.length = fread(input.bytes, 1, INPUT_MAX, file);
	fclose(file);
	return input;
}

static void read_folder(const char *folder)
{
	struct dirent **names;
	int count = scandir(folder, &names, NULL, alphasort);

	FUZZ_CHECK(count > 2, "no inputs in %s", folder);
	for (int i = 0; i < count; i++) {
		if (names[i]->d_name[0] != '.' && n_files < FILES_MAX)
			files[n_files++] = read_file(folder, names[i]->d_name);
		free(names[i]);
	}
	free(names);
}

/* Takes the input from memory of its length, so that a sanitizer notices what reads beyond it. */
static void take(const struct input *input)
{
	const char *path = getenv("REEVE_FUZZ_INPUT");
	FILE *file = path ? fopen(path, "wb") : NULL;
	uint8_t *copy = malloc(input->length ? input->length : 1);

	if (file) {
		fwrite(input->bytes, 1, input->length, file);
		fclose(file);
	}
	memcpy(copy, input->bytes, input->length);
	LLVMFuzzerTestOneInput(copy, input->length);
	free(copy);
}

/* Puts a part of another input, or of the same, in the place of some bytes. */
static void splice(struct input *input, uint64_t *state)
{
	const struct input *other = &files[next_number(state) % n_files];
	size_t from = next_number(state) % (other->length + 1), at = next_number(state) % (input->length + 1);
	size_t length = next_number(state) % (other->length - from + 1),
	       gone = next_number(state) % (input->length - at + 1);

	if (input->length + length - gone > INPUT_MAX)
		return;
	memmove(input->bytes + at + length, input->bytes + at + gone, input->length - at - gone);
	memcpy(input->bytes + at, other->bytes + from, length);
	input->length += length - gone;
}

static void change(struct input *input, uint64_t *state)
{
	static const uint8_t interesting[] = "\r\n :;09fF%?&{}[]\"\\,-+.e\0\1\4\5\x7f\x80\xff";

	for (uint32_t n = next_number(state) % 4 + 1; n > 0 && input->length; n--) {
		size_t at = next_number(state) % input->length;

		switch (next_number(state) % 4) {
		case 0: input->bytes[at] = interesting[next_number(state) % (sizeof interesting - 1)]; break;
		case 1: input->bytes[at] ^= (uint8_t)(1 << next_number(state) % 8); break;
		case 2: input->bytes[at] = (uint8_t)next_number(state); break;
		default: splice(input, state);
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t state = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	struct input changed = {.bytes = malloc(INPUT_MAX)};

	FUZZ_CHECK(argc > 2, "usage: %s FOLDER COUNT [SEED]", argv[0]);
	read_folder(argv[1]);
	for (size_t i = 0; i < n_files; i++)
		take(&files[i]);
	for (long i = 0; i < atol(argv[2]); i++) {
		const struct input *file = &files[(size_t)i % n_files];

		memcpy(changed.bytes, file->bytes, file->length);
		changed.length = file->length;
		change(&changed, &state);
		take(&changed);
	}
	printf("%zu inputs and %ld changed ones\n", n_files, atol(argv[2]));
	for (size_t i = 0; i < n_files; i++)
		free(files[i].bytes);
	free(changed.bytes);
	return 0;
}
