# shellcheck shell=bash
# The npm packages of tests/clients/node, for suites that use them.

NPM=$TOP/build-npm # kept: npm asks the network only for what is new

npm_packages() { # installs them there; says so and fails if that is impossible here
	(
		mkdir -p "$NPM"
		flock 9
		cp "$TOP"/tests/clients/node/*.mjs "$NPM"
		! cmp -s "$TOP/tests/clients/node/package-lock.json" "$NPM/installed" || exit 0
		cp "$TOP"/tests/clients/node/package*.json "$NPM"
		cd "$NPM"
		timeout 200 npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1 || exit 1
		cp package-lock.json installed
	) 9>"$TOP/build-npm.lock" && return
	echo "npm cannot install tests/clients/node here: $(tail -n 3 "$NPM/npm.log")" >&2
	return 1
}
