# shellcheck shell=bash
# Calls with raw messages, for suites that send what no client sends: . "$(dirname "$0")/raw.bash"
# Messages are in hexadecimal; blanks within them do not count.
#
#	int_field NUMBER VALUE        prints a field that is a number
#	message_field NUMBER HEX      prints a field that is a message
#	raw_hex SERVICE/METHOD HEX…   makes the call; prints the answer of raw-call, and exits with its exit code

varint() { # NUMBER
	local n=$1
	for (( ; n > 127; n >>= 7)); do printf %02x $((n & 127 | 128)); done
	printf %02x "$n"
}

int_field() {
	printf %s "$(varint $(($1 << 3)))$(varint "$2")"
}

message_field() {
	printf %s "$(varint $(($1 << 3 | 2)))$(varint $((${#2} / 2)))$2"
}

raw_hex() {
	local hex
	hex=$(printf %s "${@:2}" | tr -d ' ')
	# shellcheck disable=SC2059
	printf "$(sed 's/../\\x&/g' <<<"$hex")" | "$REEVE_BIN/raw-call" "$REEVE_MANAGER" "/reeve.v1.$1"
}
