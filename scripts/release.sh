#!/usr/bin/env bash
# Build and check a release, then tag it: bash scripts/release.sh 0.1.0. It uploads nothing.
set -eu
cd "$(dirname "$0")/.."
readonly VERSION=${1:?say which version, as in: bash scripts/release.sh 0.1.0}
readonly BARE=build/bare

fail() { echo "release: $*" >&2; exit 1; }

[ -z "$(git status --porcelain)" ] || fail "commit or stash your changes first"
grep -q "__version__ = \"$VERSION\"" slackwater/__init__.py || fail "slackwater/__init__.py does not say version $VERSION"
grep -q "^## $VERSION" CHANGELOG.md || fail "CHANGELOG.md has no section '## $VERSION'"
if git rev-parse -q --verify "refs/tags/v$VERSION" >/dev/null; then fail "the tag v$VERSION is there already"; fi

make test docs
rm -rf dist "$BARE"
.venv/bin/python -m pip install --quiet build twine
.venv/bin/python -m build --quiet
.venv/bin/python -m twine check --strict dist/*
# The wheel works in an environment that has nothing else.
python3 -m venv "$BARE"
"$BARE/bin/python" -m pip install --quiet dist/*.whl
(cd build && bare/bin/slackwater check ../examples/flights.sql)
# What is in it, with versions.
readonly NEEDS="dist/slackwater-$VERSION-requirements.txt"
"$BARE/bin/python" -m pip freeze --exclude slackwater >"$NEEDS"
.venv/bin/python -m pip install --quiet cyclonedx-bom pip-audit
.venv/bin/cyclonedx-py requirements "$NEEDS" -o "dist/slackwater-$VERSION-sbom.json"
# It says what it could not look up; a known hole ends the release.
.venv/bin/pip-audit --no-deps --disable-pip -r "$NEEDS"
git tag -a "v$VERSION" -m "Slackwater $VERSION"
echo "release: dist/ has the files; push the tag v$VERSION and upload dist/*"
