/* Signatures: a published example, and invalid secrets. */
#include "manager/callbacks/signature.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <string.h>

/* The example of the scheme's reference libraries. */
Test(callback_signature, is_the_published_one)
{
	static const char body[] = "{\"test\": 2432232314}";
	char out[CALLBACK_SIGNATURE_BYTES];

	callback_sign(
	    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, strlen(body), out);
	cr_expect(eq(str, out, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
}

Test(callback_signature, text_and_base64_of_it_are_the_same_key)
{
	char plain[CALLBACK_SIGNATURE_BYTES], coded[CALLBACK_SIGNATURE_BYTES], other[CALLBACK_SIGNATURE_BYTES];

	callback_sign("secret", "cb_1", 1, "{}", 2, plain);
	callback_sign("whsec_c2VjcmV0", "cb_1", 1, "{}", 2, coded);
	cr_expect(eq(str, plain, coded));
	callback_sign("secret", "cb_2", 1, "{}", 2, other);
	cr_expect(ne(str, plain, other));
	callback_sign("secret!", "cb_1", 1, "{}", 2, plain);
	callback_sign("whsec_c2VjcmV0IQ==", "cb_1", 1, "{}", 2, coded);
	cr_expect(eq(str, plain, coded));
}

Test(callback_signature, secrets_are_checked)
{
	char longest[CALLBACK_SECRET_MAX + 2];

	cr_expect(eq(ptr, (void *)callback_secret_problem("any text"), NULL));
	cr_expect(eq(ptr, (void *)callback_secret_problem("whsec_c2VjcmV0"), NULL));
	cr_expect(eq(str, (char *)callback_secret_problem(""), "is empty"));
	cr_expect(eq(str, (char *)callback_secret_problem("whsec_"), "begins with whsec_, and is not base64 after that"));
	cr_expect(
	    eq(str, (char *)callback_secret_problem("whsec_c2V?"), "begins with whsec_, and is not base64 after that"));
	cr_expect(
	    eq(str, (char *)callback_secret_problem("whsec_c2VjcmV"), "begins with whsec_, and is not base64 after that"));
	cr_expect(
	    eq(str, (char *)callback_secret_problem("whsec_c===c2Vj"), "begins with whsec_, and is not base64 after that"));
	cr_expect(
	    eq(str, (char *)callback_secret_problem("whsec_===="), "begins with whsec_, and is not base64 after that"));
	memset(longest, 'x', sizeof longest);
	longest[sizeof longest - 1] = 0;
	cr_expect(eq(str, (char *)callback_secret_problem(longest), "is longer than 512 bytes"));
}
