# shellcheck shell=bash
# Tasks that conditions select, for the end-to-end tests that source this file.

SHORT_LEASES=(--lease 2s --heartbeat 400ms --expiry-grace 4s --fetch-wait 300ms)

begin() { # [WORKER'S OPTION…]
	start_postgres
	start_manager "${SHORT_LEASES[@]}"
	start_worker worker "$@"
}
