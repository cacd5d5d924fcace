/* Which addresses callbacks may reach. */
#ifndef REEVE_MANAGER_CALLBACKS_ADDRESS_H
#define REEVE_MANAGER_CALLBACKS_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Returns true unless the address is one of the public Internet: loopback, link-local, private, shared (RFC 6598),
 * multicast, reserved or unspecified ones, also as an IPv4 address within an IPv6 one, and addresses of other families.
 */
bool callback_address_private(const struct sockaddr *address);

#endif
