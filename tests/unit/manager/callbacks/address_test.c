/* Which addresses callbacks may reach. */
#include "manager/callbacks/address.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>

static bool is_private(const char *text)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return callback_address_private((struct sockaddr *)&v4);
	cr_assert_eq(inet_pton(AF_INET6, text, &v6.sin6_addr), 1, "%s", text);
	return callback_address_private((struct sockaddr *)&v6);
}

Test(callback_address, loopback_link_local_and_private_addresses_are_found_however_they_are_written)
{
	static const char *const private[] = {"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1",
	    "100.127.255.255", "127.0.0.1", "127.255.0.9", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8",
	    "192.168.1.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1",
	    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::", "2002:a00:1::", "fe80::1", "fec0::1",
	    "fc00::1", "fd12:3456::1", "ff02::1"};
	static const char *const public[] = {"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
	    "126.255.255.255", "128.0.0.1", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.167.255.255",
	    "192.169.0.0", "223.255.255.255", "2001:4860:4860::8888", "::ffff:1.1.1.1", "64:ff9b::101:101",
	    "2002:101:101::"};

	for (size_t i = 0; i < sizeof private / sizeof *private; i++)
		cr_expect(is_private(private[i]), "%s", private[i]);
	for (size_t i = 0; i < sizeof public / sizeof *public; i++)
		cr_expect_not(is_private(public[i]), "%s", public[i]);
}

Test(callback_address, other_families_are_private)
{
	cr_expect(callback_address_private(&(struct sockaddr){.sa_family = AF_UNIX}));
}
