/* The parts of `reeve certs` that certs.c leaves to other files. */
#ifndef REEVE_CLIENT_CMD_CERTS_H
#define REEVE_CLIENT_CMD_CERTS_H

#include "common/error.h"

/* Prints the certificates that the folder's CA has issued, by name. Returns false with *error set on a failure. */
bool certs_list_print(const char *folder, bool json, struct reeve_error *error);

#endif
