#include "manager/callbacks/address.h"

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

static bool private_v4(uint32_t address)
{
	static const struct {
		uint32_t network;
		int bits;
	} networks[] = {
	    {0x00000000, 8},  /* this network */
	    {0x0a000000, 8},  /* private */
	    {0x64400000, 10}, /* shared */
	    {0x7f000000, 8},  /* loopback */
	    {0xa9fe0000, 16}, /* link-local */
	    {0xac100000, 12}, /* private */
	    {0xc0000000, 24}, /* of protocols */
	    {0xc0a80000, 16}, /* private */
	    {0xc6120000, 15}, /* of benchmarks */
	    {0xe0000000, 3},  /* multicast, reserved, broadcast */
	};
	for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
		if ((address ^ networks[i].network) >> (32 - networks[i].bits) == 0)
			return true;
	return false;
}

static uint32_t v4_at(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool private_v6(const uint8_t *bytes)
{
	static const uint8_t zero[12], mapped[12] = {[10] = 0xff, 0xff}, nat64[12] = {0x00, 0x64, 0xff, 0x9b};
	if (!memcmp(bytes, mapped, 12) || !memcmp(bytes, nat64, 12))
		return private_v4(v4_at(bytes + 12));
	if (!memcmp(bytes, zero, 12)) /* unspecified, loopback, and IPv4 as it was once written */
		return true;
	if (bytes[0] == 0x20 && bytes[1] == 0x02) /* 6to4 */
		return private_v4(v4_at(bytes + 2));
	/* Only 2000::/3 is of the Internet, which leaves out unique local, link-local, site-local and multicast addresses.
	 */
	return (bytes[0] & 0xe0) != 0x20;
}

bool callback_address_private(const struct sockaddr *address)
{
	switch (address->sa_family) {
	case AF_INET: return private_v4(ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr));
	case AF_INET6: return private_v6(((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr);
	default: return true;
	}
}
