/* Methods of AdminService that are in files of their own: Check (watching.c). */
#ifndef REEVE_MANAGER_SERVICE_ADMIN_METHODS_H
#define REEVE_MANAGER_SERVICE_ADMIN_METHODS_H

#include "common/rpc/server.h"

rpc_method admin_check;

#endif
