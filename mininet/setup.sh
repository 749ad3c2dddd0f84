#!/bin/sh
# Installs what the emulations and tests need from Debian (or Ubuntu). With --if-needed only says nothing and does nothing
# where all is there; with --bench also what benchmarks compare with. Rust itself comes from rustup.
set -eu

packages="gcc libc6-dev make mininet iproute2 iputils-ping ethtool nftables net-tools procps util-linux
          python3 python3-yaml python3-numpy python3-sklearn python3-matplotlib python3-pytest python3-venv python3-mypy"

# Tests of the page and of the Wireshark dissector are skipped without these; Ubuntu's chromium is no package of apt's.
for package in chromium tshark; do
    apt-cache show "$package" >/dev/null 2>&1 && packages="$packages $package"
done

if [ "${1:-}" = "--bench" ]; then
    packages="$packages openmpi-bin libopenmpi-dev python3-torch"
fi

missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $package"
done

if [ -z "$missing" ]; then
    [ "${1:-}" = "--if-needed" ] || echo "all Debian packages are there"
elif [ "$(id -u)" -eq 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
    echo "installed:$missing"
else
    echo "missing Debian packages; run: sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

if ! command -v cargo >/dev/null; then
    echo "cargo not found: install Rust 1.89 or later (rustup)" >&2
    exit 1
fi
