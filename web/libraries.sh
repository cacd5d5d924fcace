#!/bin/sh
# Installs the libraries of package-lock.json with npm, and makes modules of them: libraries.sh NPM FOLDER
#
# FOLDER then has uplot.js, with its licence, and uplot.css. npm asks the network only for what its cache does not have. Without npm
# ("") or a registry, it warns: charts are not drawn then, and are there in words and as tables alone.
set -eu

source=$(dirname "$0") npm=$1
mkdir -p "$2"
cp "$source/package.json" "$source/package-lock.json" "$2"
cd "$2"

problem=
if [ -z "$npm" ]; then
	problem='there is no npm'
elif ! "$npm" ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries 1 >npm.log 2>&1; then
	problem=$(grep '^npm' npm.log | head -n 3)
fi
if [ -n "$problem" ]; then
	cat >&2 <<-END
		$problem
		warning: the dashboard will draw no charts: npm could not install their library. With npm and its registry at hand, delete
		$PWD and build again. A build with -DREEVE_WEB=OFF is without the dashboard.
	END
	echo 'export default null;' >uplot.js
	: >uplot.css
	exit
fi
{
	echo '/*'
	cat node_modules/uplot/LICENSE
	echo '*/'
	cat node_modules/uplot/dist/uPlot.iife.min.js
	echo 'export default uPlot;'
} >uplot.js
cp node_modules/uplot/dist/uPlot.min.css uplot.css
