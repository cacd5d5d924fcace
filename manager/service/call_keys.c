/* Idempotency keys: each stands for the request id of the first call with it. */
#include "manager/service/call_keys.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct keyed_call {
	struct store_call_key op;
	struct rpc_call *call;
};

static void on_found(struct store_op *op, const struct reeve_error *error)
{
	struct keyed_call *k = (struct keyed_call *)op;
	if (error)
		rpc_call_fail_error(k->call, error);
	else if (!k->op.same)
		rpc_call_fail(k->call, STATUS(ALREADY_EXISTS), "the idempotency key was used for a call with another request");
	else
		rpc_call_resume(k->call, k->op.request_id);
	free(k);
}

/* Hashes two texts, with the length of the first before them. */
static void hash(const void *first, size_t first_length, const void *second, size_t second_length, uint8_t out[16])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	uint64_t length = first_length;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	mem_check(context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) &&
	    EVP_DigestUpdate(context, &length, sizeof length) && EVP_DigestUpdate(context, first, first_length) &&
	    EVP_DigestUpdate(context, second, second_length) && EVP_DigestFinal_ex(context, digest, NULL));
	EVP_MD_CTX_free(context);
	memcpy(out, digest, 16);
}

void call_key_find(void *arg, struct rpc_call *call, const struct rpc_key *key)
{
	const struct services *s = arg;
	const struct rpc_identity *identity = rpc_call_identity(call);
	char *scope = mem_asprintf("%s\n%s", identity->name, rpc_call_method(call));
	struct keyed_call *k = mem_calloc(1, sizeof *k);
	k->call = call;
	k->op.op = service_op(s, call, on_found);
	memcpy(k->op.request_id, rpc_call_request_id(call), sizeof k->op.request_id);
	hash(scope, strlen(scope), key->text, key->length, k->op.key);
	hash("", 0, key->request, key->request_length, k->op.request);
	free(scope);
	store_call_key(s->core->base.store, &k->op);
}
