/* The reasons for which connections are refused: from OpenSSL's numbers, to alerts and to sentences. */
#include "common/rpc/tls_problem.h"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

int tls_problem_of_verification(int x509_error)
{
	switch (x509_error) {
	case X509_V_OK: return TLS_FINE;
	case X509_V_ERR_CERT_HAS_EXPIRED: return TLS_EXPIRED;
	case X509_V_ERR_CERT_NOT_YET_VALID: return TLS_NOT_YET_VALID;
	case X509_V_ERR_CERT_REVOKED: return TLS_REVOKED;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH: return TLS_WRONG_NAME;
	case X509_V_ERR_INVALID_PURPOSE: return TLS_WRONG_USE;
	case X509_V_ERR_UNABLE_TO_GET_CRL:
	case X509_V_ERR_CRL_HAS_EXPIRED:
	case X509_V_ERR_CRL_NOT_YET_VALID:
	case X509_V_ERR_CRL_SIGNATURE_FAILURE: return TLS_NO_CRL;
	/* A CA of the same name with another key. */
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
	case X509_V_ERR_CERT_UNTRUSTED:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_INVALID_CA: return TLS_WRONG_CA;
	default: return TLS_BAD_CERTIFICATE;
	}
}

int tls_alert_error(int x509_error)
{
	switch (tls_problem_of_verification(x509_error)) {
	/* By RFC 8446 certificate_expired also means "not yet valid", for which OpenSSL has no alert of its own. */
	case TLS_NOT_YET_VALID: return X509_V_ERR_CERT_HAS_EXPIRED;
	case TLS_WRONG_CA: return X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY;
	case TLS_NO_CRL: return X509_V_ERR_UNSPECIFIED; /* the alert internal_error: the fault is at this end */
	default: return x509_error;
	}
}

/* Returns TLS_EXPIRED or, if this end's certificate is not valid yet, TLS_NOT_YET_VALID. */
static int expired_or_early(X509 *own)
{
	return own && X509_cmp_current_time(X509_get0_notBefore(own)) > 0 ? TLS_NOT_YET_VALID : TLS_EXPIRED;
}

int tls_problem_of_alert(int alert, enum tls_end end, X509 *own)
{
	switch (alert) {
	case SSL_AD_CERTIFICATE_EXPIRED: return TLS_BY_PEER + expired_or_early(own);
	case SSL_AD_CERTIFICATE_REVOKED: return TLS_BY_PEER + TLS_REVOKED;
	case SSL_AD_UNKNOWN_CA: return TLS_BY_PEER + TLS_WRONG_CA;
	case SSL_AD_CERTIFICATE_REQUIRED: return TLS_BY_PEER + TLS_NO_CERTIFICATE;
	case SSL_AD_UNSUPPORTED_CERTIFICATE: return TLS_BY_PEER + TLS_WRONG_USE;
	case SSL_AD_BAD_CERTIFICATE: return TLS_BY_PEER + (end == TLS_SERVER ? TLS_WRONG_NAME : TLS_BAD_CERTIFICATE);
	case SSL_AD_CERTIFICATE_UNKNOWN: return TLS_BY_PEER + TLS_BAD_CERTIFICATE;
	case SSL_AD_INTERNAL_ERROR: return TLS_BY_PEER + TLS_NO_CRL;
	case SSL_AD_PROTOCOL_VERSION: return TLS_BY_PEER + TLS_OLD_VERSION;
	default: return TLS_BY_PEER + TLS_BROKEN;
	}
}

const char *tls_problem_text(int problem, enum tls_end end)
{
	/* What this end refuses. */
	static const char *const ours[] = {
	    [TLS_PEER_IS_PLAIN] = "it does not speak TLS",
	    [TLS_PEER_IS_TLS] = "it speaks TLS, and this port does not",
	    [TLS_OLD_VERSION] = "it offers only versions of TLS before 1.3",
	    [TLS_NO_CERTIFICATE] = "it has no certificate",
	    [TLS_WRONG_NAME] = "its certificate is for other names than the URL's",
	    [TLS_WRONG_CA] = "its certificate was not issued by a trusted CA (--tls-ca)",
	    [TLS_EXPIRED] = "its certificate has expired",
	    [TLS_NOT_YET_VALID] = "its certificate is not valid yet",
	    [TLS_REVOKED] = "its certificate has been revoked",
	    [TLS_WRONG_USE] = "its certificate is not for this use",
	    [TLS_BAD_CERTIFICATE] = "its certificate is not acceptable",
	    [TLS_NO_CRL] = "there is no valid revocation list of its certificate's CA (--tls-crl)",
	    [TLS_BROKEN] = "its bytes are not TLS as they should be",
	};
	/* What the other end refuses. */
	static const char *const theirs[] = {
	    [TLS_OLD_VERSION] = "it refuses TLS 1.3, or expects no TLS",
	    [TLS_NO_CERTIFICATE] = "it requires a certificate, and this program has none (--tls-cert)",
	    [TLS_WRONG_NAME] =
	        "it refuses this program's certificate, perhaps because it is for other names than the URL's",
	    [TLS_WRONG_CA] = "it refuses this program's certificate: not issued by a CA that it trusts",
	    [TLS_EXPIRED] = "it refuses this program's certificate: expired",
	    [TLS_NOT_YET_VALID] = "it refuses this program's certificate: not valid yet",
	    [TLS_REVOKED] = "it refuses this program's certificate: revoked",
	    [TLS_WRONG_USE] = "it refuses this program's certificate: not for this use",
	    [TLS_BAD_CERTIFICATE] = "it refuses this program's certificate",
	    [TLS_NO_CRL] = "it cannot check this program's certificate; its log has the reason",
	    [TLS_BROKEN] = "it has ended the TLS handshake",
	};

	if (end == TLS_CLIENT && problem == TLS_PEER_IS_PLAIN)
		return "its port does not speak TLS: tcp:// in place of tls+tcp://, or another port";
	if (end == TLS_CLIENT && problem == TLS_PEER_IS_TLS)
		return "its port speaks TLS: tls+tcp:// in place of tcp://";
	return problem >= TLS_BY_PEER ? theirs[problem - TLS_BY_PEER] : ours[problem];
}
