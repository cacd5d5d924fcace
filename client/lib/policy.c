/* Conversion of retry policies between the public struct and the message. */
#include "client/lib/internal.h"

void policy_to_message(Reeve__V1__RetryPolicy *message, const struct reeve_retry_policy *policy)
{
	reeve__v1__retry_policy__init(message);
	message->kind = (Reeve__V1__RetryKind)policy->kind;
	message->base_ms = policy->base_ms;
	message->max_ms = policy->max_ms;
	message->step_ms = policy->step_ms;
	message->exponent = policy->exponent;
	message->n_delays_ms = policy->n_delays;
	message->delays_ms = (int64_t *)policy->delays_ms;
	message->jitter_percent = policy->jitter_percent;
}

void policy_from_message(struct reeve_retry_policy *policy, const Reeve__V1__RetryPolicy *message)
{
	*policy = (struct reeve_retry_policy){
	    .kind = (enum reeve_retry_kind)message->kind,
	    .base_ms = message->base_ms,
	    .max_ms = message->max_ms,
	    .step_ms = message->step_ms,
	    .exponent = message->exponent,
	    .n_delays = message->n_delays_ms,
	    .delays_ms = message->delays_ms,
	    .jitter_percent = message->jitter_percent,
	};
}
