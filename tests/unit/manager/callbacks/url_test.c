/* The URLs that callbacks may use. */
#include "manager/callbacks/url.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *problem(const char *url)
{
	const char *found = callback_url_problem(url);

	return found ? found : "";
}

Test(callback_url, good_ones_are_taken)
{
	const char *const good[] = {"http://example.org", "https://example.org/", "HTTP://EXAMPLE.org/x?y=1&z#part",
	    "http://127.0.0.1:8080/hook", "http://[::1]:80/", "https://müller.example/%20", "http://localhost:0/"};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		cr_expect(eq(str, (char *)problem(good[i]), ""), "%s", good[i]);
}

Test(callback_url, bad_ones_are_refused_with_the_reason)
{
	static const struct {
		const char *url, *problem;
	} bad[] = {
	    {"", "is empty"},
	    {"example.org/hook", "does not begin with http:// or https://"},
	    {"ftp://example.org/", "does not begin with http:// or https://"},
	    {"file:///etc/passwd", "does not begin with http:// or https://"},
	    {"gopher://example.org/", "does not begin with http:// or https://"},
	    {"nothing://example.org/", "does not begin with http:// or https://"},
	    {"http://", "has no host"},
	    {"http:///path", "has no host"},
	    {"http://example.org:99999/", "has an invalid port; ports are from 0 to 65535"},
	    {"http://example.org/a b", "holds a space or a control character"},
	    {"http://example.org/\r\nX-Other: 1", "holds a space or a control character"},
	    {"http://exa\x7fmple.org/", "holds a space or a control character"},
	    {"http://user:password@example.org/",
	        "has a user's name in it; leave that out: callback_secret signs the calls"},
	    {"http://[::1/", "is not a URL; one looks like https://example.org/path"},
	};
	char longest[CALLBACK_URL_MAX + 2] = "http://example.org/";

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		cr_expect(eq(str, (char *)problem(bad[i].url), (char *)bad[i].problem), "%s", bad[i].url);
	memset(longest + strlen(longest), 'x', CALLBACK_URL_MAX - strlen(longest));
	cr_expect(eq(str, (char *)problem(longest), ""));
	longest[CALLBACK_URL_MAX] = 'x';
	cr_expect(eq(str, (char *)problem(longest), "is longer than 2048 bytes"));
}

Test(callback_url, messages_have_no_secrets_of_a_site)
{
	char site[CALLBACK_SITE_BYTES];

	cr_expect(eq(str, (char *)callback_url_site("https://Example.org/secret?token=x", site), "https://Example.org"));
	cr_expect(eq(str, (char *)callback_url_site("http://[::1]:81/secret", site), "http://[::1]:81"));
	cr_expect(eq(str, (char *)callback_url_site("http://user:word@host/", site), "an invalid URL"));
}

Test(callback_url, hosts_are_allowed_by_a_list)
{
	static const char list[] = "one.example, *.two.example,10.0.0.7,[::1]";
	static const struct {
		const char *url;
		bool allowed;
	} cases[] = {
	    {"http://one.example/", true},
	    {"https://ONE.example:8443/x", true},
	    {"http://x.one.example/", false},
	    {"http://one.example.org/", false},
	    {"http://two.example/", false},
	    {"http://a.two.example/", true},
	    {"http://a.b.two.example/", true},
	    {"http://atwo.example/", false},
	    {"http://10.0.0.7:1/", true},
	    {"http://10.0.0.70/", false},
	    {"http://[::1]/", true},
	    {"http://one.example@evil.example/", false},
	    {"http://evil.example/?one.example", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cr_expect(eq(int, callback_url_allowed(cases[i].url, list), cases[i].allowed), "%s", cases[i].url);
	cr_expect(callback_url_allowed("http://any.example/", NULL));
	cr_expect(not(callback_url_allowed("http://any.example/", "")));
}

Test(callback_url, a_host_may_be_allowed_at_one_port)
{
	static const char list[] = "one.example:8443,*.two.example:80,[::1]:81,three.example:443";
	static const struct {
		const char *url;
		bool allowed;
	} cases[] = {
	    {"https://one.example:8443/", true},
	    {"https://one.example/", false},
	    {"https://one.example:84430/", false},
	    {"http://one.example:844/", false},
	    {"http://a.two.example/", true},
	    {"https://a.two.example/", false},
	    {"http://a.two.example:8080/", false},
	    {"http://[::1]:81/", true},
	    {"http://[::1]/", false},
	    {"https://three.example/", true},
	    {"http://three.example/", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cr_expect(eq(int, callback_url_allowed(cases[i].url, list), cases[i].allowed), "%s", cases[i].url);
}
