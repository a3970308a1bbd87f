#!/bin/sh
# portability.sh PYTHON [OPTION ...]: installs the matrix's compilers and machines where that is allowed, and runs it.
# What cannot be installed is named by the matrix as not run.
set -eu
python=$1
shift
packages="gcc make musl-tools clang-19 libomp-19-dev qemu-user nodejs
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
    gcc-arm-linux-gnueabihf libc6-dev-armhf-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross"
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    missing=
    for package in $packages; do
        dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
    done
    # Node may be there without its Debian package.
    command -v node >/dev/null && missing=$(echo "$missing" | sed 's/ nodejs//')
    if [ -n "$missing" ]; then
        apt-get update -qq || true
        for package in $missing; do
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove "$package" \
                >/dev/null 2>&1 || echo "cannot install $package" >&2
        done
    fi
fi
"$python" -m pip install -q 'ziglang>=0.13' || echo "cannot install ziglang" >&2
"$python" -m presk_db.conformance.portability "$@"
