# shellcheck shell=bash
# Tasks that conditions select, for the end-to-end tests that source this file.

LONG_LEASES=(--lease 30s --heartbeat 400ms --expiry-grace 40s --fetch-wait 300ms) # so long that a busy machine ends none

begin() { # [WORKER'S OPTION…]
	start_postgres
	start_manager "${LONG_LEASES[@]}"
	start_worker worker "$@"
}
