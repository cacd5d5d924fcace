/* The names of what identities submit and create. */
#include "common/rpc/server.h"

#include "common/limits.h"
#include "common/mem.h"
#include "common/text.h"

#include <string.h>

bool rpc_identity_owns(const struct rpc_identity *identity, const char *name)
{
	size_t length = strlen(identity->name);

	return !strncmp(name, identity->name, length) && (!name[length] || strchr("/@", name[length]));
}

char *rpc_identity_qualify(const struct rpc_identity *identity, const char *name)
{
	char *qualified;

	if (!*identity->name || rpc_identity_owns(identity, name))
		return NULL;
	qualified = mem_asprintf(*name ? "%s/%s" : "%s", identity->name, name);
	if (strlen(qualified) > LIMIT_NAME_BYTES)
		qualified[utf8_cut(qualified, LIMIT_NAME_BYTES)] = '\0';
	return qualified;
}
