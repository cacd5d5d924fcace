/* For now every caller is an admin. */
#include "manager/access/access.h"

#include "common/json_names.h"
#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>

#define ALL_ROLES (RPC_ANYONE - 1)

struct access {
	struct rpc_identity everyone;
};

static struct rpc_identity *identify(void *arg, const struct rpc_caller *caller, struct reeve_error *error)
{
	struct access *access = arg;
	(void)caller;
	(void)error;
	access->everyone.references++;
	return &access->everyone;
}

/* Writes the names of roles: "submitter, operator or admin". */
static void roles_write(uint32_t roles, char *out, size_t size)
{
	const ProtobufCEnumDescriptor *e = &reeve__v1__role__descriptor;
	char word[JSON_NAME_BYTES];
	size_t length = 0;
	for (unsigned i = 0; i < e->n_values && length < size; i++) {
		uint32_t bit = UINT32_C(1) << e->values[i].value;
		if (!(roles & bit) || !json_enum_word(e, e->values[i].value, word))
			continue;
		roles &= ~bit;
		length += (size_t)snprintf(out + length, size - length, "%s%s", word,
		    !roles                    ? ""
		        : roles & (roles - 1) ? ", "
		                              : " or ");
	}
}

static void denied(
    void *arg, const struct rpc_identity *identity, const char *method, uint32_t roles, struct reeve_error *error)
{
	char needed[200] = "";
	(void)arg;
	roles_write(roles | ROLE(ADMIN), needed, sizeof needed);
	error_set(error, STATUS(PERMISSION_DENIED), "\"%s\" may not call %s: that takes the role %s", identity->name,
	    method, needed);
}

static void keep(struct rpc_identity *identity)
{
	(void)identity;
}

struct access *access_create(struct rpc_server *server)
{
	struct access *access = mem_calloc(1, sizeof *access);
	const struct rpc_guard guard = {identify, denied, access};
	access->everyone = (struct rpc_identity){.name = "", .roles = ALL_ROLES, .references = 1, .free = keep};
	rpc_server_guard(server, &guard);
	return access;
}

void access_destroy(struct access *access)
{
	free(access);
}
