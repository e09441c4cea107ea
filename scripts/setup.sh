#!/usr/bin/env bash
# Make the checkout ready to run: a Java 17+ runtime, and .venv with the package (editable) and its dev tools.
# Run it as often as you like: when nothing has changed it only looks.
set -eu
cd "$(dirname "$0")/.."

readonly VENV=.venv
readonly STAMP=$VENV/.setup-stamp

say() { echo "setup: $*"; }
fail() {
    echo "setup: $*" >&2
    exit 1
}

can_apt() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

# Install the first of the named packages that can be installed.
apt_install_one_of() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || say "apt-get update failed, going on with the package lists that are there"
    local package
    for package in "$@"; do
        if apt-get install -y -qq --no-install-recommends "$package" >/dev/null; then
            say "installed $package"
            return 0
        fi
        say "could not install $package"
    done
    return 1
}

# --- Java -----------------------------------------------------------------------------------------------------------

# The major version of the java that Spark will start (JAVA_HOME goes before PATH); 0 when there is none.
java_version() {
    local java=java output version
    if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java; fi
    output=$("$java" -version 2>&1) || output=
    version=$(sed -n 's/.*version "\([0-9]*\).*/\1/p' <<<"$output" | head -n 1)
    echo "${version:-0}"
}

java_is_ready() { [ "$(java_version)" -ge 17 ]; }

ensure_java() {
    if java_is_ready; then return; fi
    if [ -n "${JAVA_HOME:-}" ] && (unset JAVA_HOME && java_is_ready); then
        fail "JAVA_HOME=$JAVA_HOME holds no Java 17 or newer, but the java on your PATH is one: unset JAVA_HOME."
    fi
    if can_apt; then
        say "no Java 17 or newer found, installing one"
        mkdir -p /usr/share/man/man1 # slim images lack it, and the Java packages stumble over that
        apt_install_one_of openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless || true
        if java_is_ready; then return; fi
        if [ -n "${JAVA_HOME:-}" ] && (unset JAVA_HOME && java_is_ready); then
            fail "Java is installed, but JAVA_HOME=$JAVA_HOME points to another one: unset JAVA_HOME."
        fi
    fi
    fail "Spark needs a Java runtime, version 17 or newer. Install one, then run make setup again:
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless    (or openjdk-21-jre-headless)
  Fedora:          sudo dnf install java-21-openjdk-headless
  macOS:           brew install openjdk@17
If one is installed already, set JAVA_HOME to its folder."
}

# --- Python ---------------------------------------------------------------------------------------------------------

is_python_311() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.11 python3 python3.12 python3.13 python3.14; do
        if is_python_311 "$candidate"; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

make_venv() {
    local python version
    python=$(find_python) || fail "Slackwater needs Python 3.11 or newer. Install one, then run make setup again:
  Debian, Ubuntu:  sudo apt-get install python3.11 python3.11-venv
  Fedora:          sudo dnf install python3.11
  macOS:           brew install python@3.11
If one is installed under another name, give it: make setup PYTHON=/path/to/python"
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    # Debian parts venv's ensurepip from Python itself.
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        say "Python $version has no ensurepip"
        if ! can_apt || ! apt_install_one_of "python$version-venv" python3-venv \
            || ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            fail "$python cannot make virtual environments. Install the missing part, then run make setup again:
  Debian, Ubuntu:  sudo apt-get install python$version-venv    (or python3-venv)"
        fi
    fi
    say "making $VENV with Python $version"
    "$python" -m venv --clear "$VENV"
}

# A virtual environment holds the path it was made under, so a moved checkout needs a new one.
venv_is_usable() {
    is_python_311 "$VENV/bin/python" && "$VENV/bin/python" -m pip --version >/dev/null 2>&1 \
        && grep -qxF "$PWD" "$VENV/.setup-path" 2>/dev/null
}

ensure_venv() {
    local wanted
    wanted=$(cat pyproject.toml scripts/setup.sh | cksum)
    if [ "$(cat "$STAMP" 2>/dev/null)" = "$wanted" ] && venv_is_usable; then
        say "up to date"
        return
    fi
    if ! venv_is_usable; then
        make_venv
        echo "$PWD" >"$VENV/.setup-path"
    fi
    rm -f "$STAMP"
    say "installing slackwater and its dev tools (the first time Spark is fetched, about 450 MB)"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]' \
        || fail "pip could not install the package, see above."
    echo "$wanted" >"$STAMP"
    say "done"
}

ensure_java
ensure_venv
