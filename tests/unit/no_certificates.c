/* Criterion initializes libgit2, in the process of each test, and libgit2 would read the certificates of the machine:
 * 220 KiB, a third of the time of a short test. This function takes the place of the one that it calls. */

int mbedtls_x509_crt_parse_file(void *chain, const char *path);

int mbedtls_x509_crt_parse_file(void *chain, const char *path)
{
	(void)chain, (void)path;
	return 0;
}
