/* Tests of manager/store/params: columns are encoded like arrays whose elements are added one by one. */
#include "manager/store/params.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <string.h>

struct row {
	int64_t number, time, maybe;
	int32_t small;
	bool flag;
	const char *string;
	const char *const *list;
	int list_count;
};

static const char *const names[] = {"x", "", "yz"};

static struct row rows[] = {
    {.number = 1, .time = 5, .maybe = 0, .small = -3, .flag = true, .string = "one", .list = names, .list_count = 3},
    {.number = INT64_MIN, .time = TIME_NEVER, .maybe = 7, .small = 4, .string = NULL},
};

static void expect_same(struct params *columns, struct params *loops)
{
	cr_expect(eq(int, columns->count, loops->count));
	cr_expect(eq(int, memcmp(columns->size, loops->size, sizeof *loops->size * (size_t)loops->count), 0));
	cr_assert(eq(sz, columns->length, loops->length));
	cr_expect(eq(int, memcmp(columns->data, loops->data, loops->length), 0));
	params_free(columns);
	params_free(loops);
}

Test(params, columns_are_arrays_of_members)
{
	static const struct params_column table[] = {
	    COLUMN(struct row, number, INT8),
	    COLUMN(struct row, time, TIME),
	    COLUMN_OR_NULL(struct row, maybe, INT8, 0),
	    COLUMN(struct row, small, INT4),
	    COLUMN(struct row, flag, BOOL),
	    COLUMN(struct row, string, TEXT),
	    COLUMN_LIST(struct row, list, list_count, TEXT),
	};
	struct params columns = {0}, loops = {0}, *p = &loops;
	params_struct_columns(&columns, rows, sizeof *rows, 2, COLUMNS(table));
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < 2; i++)
		params_add_int8(p, rows[i].number);
	params_array_end(p);
	params_array_begin(p, PARAMS_TIME);
	for (int i = 0; i < 2; i++)
		params_add_time(p, rows[i].time);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	params_add_null(p);
	params_add_int8(p, 7);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < 2; i++)
		params_add_int4(p, rows[i].small);
	params_array_end(p);
	params_array_begin(p, PARAMS_BOOL);
	for (int i = 0; i < 2; i++)
		params_add_bool(p, rows[i].flag);
	params_array_end(p);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < 2; i++)
		params_add_text(p, rows[i].string);
	params_array_end(p);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < 3; i++)
		params_add_text(p, names[i]);
	params_array_end(p);
	expect_same(&columns, &loops);
}

Test(params, a_column_of_nulls_is_one_null_and_one_without_rows_an_empty_array)
{
	static const struct params_column maybe[] = {COLUMN_OR_NULL(struct row, maybe, INT8, 0)};
	const struct row *first = &rows[0];
	struct params columns = {0}, loops = {0};
	params_columns(&columns, &first, 1, COLUMNS(maybe));
	params_columns(&columns, &first, 0, COLUMNS(maybe));
	params_null(&loops);
	params_int8s(&loops, NULL, 0);
	expect_same(&columns, &loops);
}

Test(params, an_empty_text_is_not_null)
{
	struct params params = {0};
	params_text(&params, "");
	cr_expect(eq(int, params.size[0], 0));
	cr_expect(ne(ptr, params.data, NULL));
	params_free(&params);
}
