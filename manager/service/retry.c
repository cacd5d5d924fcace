/* sql/tables/tasks.sql describes the JSON of the column retry_policy. */
#include "manager/service/retry.h"

#include "common/json_names.h"
#include "common/limits.h"

#include <stdlib.h>
#include <string.h>

enum kind {
	EXPONENTIAL = REEVE__V1__RETRY_KIND__RETRY_KIND_EXPONENTIAL,
	FIXED = REEVE__V1__RETRY_KIND__RETRY_KIND_FIXED,
	LINEAR = REEVE__V1__RETRY_KIND__RETRY_KIND_LINEAR,
	POLYNOMIAL = REEVE__V1__RETRY_KIND__RETRY_KIND_POLYNOMIAL,
	LIST = REEVE__V1__RETRY_KIND__RETRY_KIND_LIST,
};

static enum kind kind_of(const Reeve__V1__RetryPolicy *p)
{
	return p->kind ? (enum kind)p->kind : EXPONENTIAL;
}

static const char *kind_word(enum kind kind, char *word)
{
	return json_enum_word(&reeve__v1__retry_kind__descriptor, kind, word) ? word : "";
}

char *retry_json(const Reeve__V1__RetryPolicy *p)
{
	enum kind kind = kind_of(p);
	if (kind == EXPONENTIAL && p->jitter_percent == 0)
		return NULL;
	char word[JSON_NAME_BYTES];
	json_t *json = json_pack("{ss}", "kind", kind_word(kind, word));
	if (kind == LINEAR)
		json_object_set_new(json, "step_ms", json_integer(p->step_ms));
	if (kind == POLYNOMIAL)
		json_object_set_new(json, "exponent", json_real(p->exponent != 0 ? p->exponent : DEFAULT_RETRY_EXPONENT));
	if (kind == LIST) {
		json_t *delays = json_array();
		for (size_t i = 0; i < p->n_delays_ms; i++)
			json_array_append_new(delays, json_integer(p->delays_ms[i]));
		json_object_set_new(json, "delays_ms", delays);
	}
	if (p->jitter_percent)
		json_object_set_new(json, "jitter_percent", json_integer(p->jitter_percent > 0 ? p->jitter_percent : 0));
	char *text = json_dumps(json, JSON_COMPACT);
	json_decref(json);
	return text;
}

int64_t retry_base_ms(const Reeve__V1__RetryPolicy *p)
{
	bool may_be_zero = kind_of(p) == LINEAR || kind_of(p) == LIST;
	return p->base_ms || may_be_zero ? p->base_ms : DEFAULT_RETRY_BASE_MS;
}

int64_t retry_max_ms(const Reeve__V1__RetryPolicy *p)
{
	if (p->max_ms)
		return p->max_ms;
	return kind_of(p) == LIST || kind_of(p) == FIXED ? DAYS_MS(LIMIT_RETRY_DAYS) : DEFAULT_RETRY_MAX_MS;
}

void retry_put(json_t *columns, const Reeve__V1__RetryPolicy *p)
{
	char *policy = p ? retry_json(p) : NULL;
	json_object_set_new(columns, "retry_base_ms", p ? json_integer(retry_base_ms(p)) : json_null());
	json_object_set_new(columns, "retry_max_ms", p ? json_integer(retry_max_ms(p)) : json_null());
	json_object_set_new(columns, "retry_policy", policy ? json_loads(policy, 0, NULL) : json_null());
	free(policy);
}
