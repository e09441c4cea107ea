#!/usr/bin/env bash
# Have Chromium for the tests of the live page: as root on Debian it is installed. Elsewhere nothing happens but a
# word, and these tests are skipped.
set -eu

say() { echo "browser: $*"; }

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || say "apt-get update failed, going on with the package lists that are there"
    if apt-get install -y -qq --no-install-recommends chromium >/dev/null; then
        say "installed chromium"
        exit 0
    fi
fi
say "there is no Chromium, so the tests of the live page in a browser are skipped"
