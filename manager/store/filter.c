/* Passes a filter as parameters of a statement. */
#include "common/text.h"
#include "manager/store/store_internal.h"

static void add_text(struct params *p, const char *text)
{
	params_text(p, text_given(text));
}

static void number_or_null(struct params *p, int64_t number)
{
	if (number)
		params_int8(p, number);
	else
		params_null(p);
}

void filter_params(struct params *p, const struct store_filter *filter)
{
	static const char *const names[] = {NULL, "queued", "executing", "failed", "completed", "dead", "cancelled"};
	if (filter->statuses) {
		params_array_begin(p, PARAMS_TEXT);
		for (unsigned i = 1; i < sizeof names / sizeof *names; i++)
			if (filter->statuses & 1U << i)
				params_add_text(p, names[i]);
		params_array_end(p);
	} else {
		params_null(p);
	}
	add_text(p, filter->queue);
	add_text(p, filter->type);
	add_text(p, filter->error);
	add_text(p, filter->error_contains);
	add_text(p, filter->error_code);
	number_or_null(p, filter->older_ms);
	number_or_null(p, filter->newer_ms);
	number_or_null(p, filter->running_longer_ms);
	number_or_null(p, filter->batch);
	add_text(p, filter->key);
	add_text(p, filter->source);
}

void matching_params(struct params *p, const struct store_filter *filter, enum store_edit_kind change)
{
	static const char *const names[] = {
	    [STORE_CANCEL] = "cancel",
	    [STORE_DISCARD] = "discard",
	    [STORE_RETRY] = "retry",
	    [STORE_UPDATE] = "update",
	};
	filter_params(p, filter);
	params_int8(p, filter->after_id);
	params_int4(p, STORE_FILTER_MAX);
	params_text(p, names[change]);
	params_int8(p, STORE_FILTER_STRETCH);
}
