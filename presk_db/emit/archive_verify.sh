#!/bin/sh
# verify.sh [WEIGHTS]: checks this archive, builds its program, runs it, and compares what it gives with the recorded
# outputs, bit for bit. It needs a C compiler (CC, CFLAGS), sha256sum and the usual tools of POSIX; nothing of presk.
#
# WEIGHTS is the weights' safetensors file, where the archive does not hold it. What was changed is named; then the exit
# status is 1.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
changed=0

if command -v sha256sum >/dev/null 2>&1; then
    digest() { sha256sum | cut -c 1-64; }
else
    digest() { shasum -a 256 | cut -c 1-64; }
fi

say() { printf '%s\n' "verify.sh: $*"; }
fail() { say "$*" >&2; exit 1; }

# part FILE OFFSET BYTES: those bytes.
part() { tail -c "+$(($2 + 1))" "$1" 2>/dev/null | head -c "$3"; }

# name_parts FILE LISTED: says which parts of LISTED, by PARTS, are other ones in FILE: all, or the first where FILE has
# another size, since what follows has moved.
name_parts() {
    size=$(($(wc -c <"$1")))
    end=0
    while read -r sha offset bytes file what; do
        [ "$file" = "$2" ] && end=$((offset + bytes))
    done <PARTS
    while read -r sha offset bytes file what; do
        if [ "$file" = "$2" ] && [ "$(part "$1" "$offset" "$bytes" | digest)" != "$sha" ]; then
            say "CHANGED: $what, in $file" >&2
            [ "$size" = "$end" ] || break
        fi
    done <PARTS
}

# --- The files ------------------------------------------------------------------------------------------------------
sources=
count=0
[ -f MANIFEST ] && [ -f PARTS ] || fail "MANIFEST or PARTS is missing"
while read -r sha name; do
    count=$((count + 1))
    case $name in
    program/main.c | program/model.c | program/kernels.c | program/presk_*.c) sources="$sources $name" ;;
    esac
    if [ ! -f "$name" ]; then
        say "MISSING: $name" >&2
        changed=1
    elif [ "$(digest <"$name")" != "$sha" ]; then
        say "CHANGED: $name" >&2
        name_parts "$name" "$name"
        changed=1
    fi
done <MANIFEST
[ "$changed" = 0 ] || fail "the archive was changed"
say "$count files are those of the manifest, whose SHA-256 is $(digest <MANIFEST)"

# --- The weights ----------------------------------------------------------------------------------------------------
read -r kind recorded <WEIGHTS
weights=program/weights.safetensors
if [ $# -gt 0 ]; then
    weights=$1
    case $weights in /*) ;; *) weights=$OLDPWD/$weights ;; esac
    [ -f "$weights" ] || fail "$1: no such file"
    [ "$(digest <"$weights")" = "$recorded" ] || say "$1 is not the recorded weights file, by its SHA-256; it is used all the same"
elif [ "$kind" = file ] && [ ! -f "$weights" ]; then
    fail "the weights are not in this archive: give their safetensors file, sh verify.sh model.safetensors"
fi

# --- The program ----------------------------------------------------------------------------------------------------
CC=${CC:-cc}
CFLAGS=${CFLAGS:--O2}
strict="-std=c11 -ffp-contract=off -fno-math-errno"
needed=$(printf '#if defined __s390x__ && !defined __clang__\n-fexcess-precision=fast\n#elif defined __arm__ && defined __clang__\n-fno-vectorize -fno-slp-vectorize\n#endif\n' | $CC $CFLAGS -E -P -x c - 2>/dev/null)

# built NAME FLAGS...: builds the program as work/NAME.
built() {
    name=$1
    shift
    $CC $CFLAGS $strict $needed "$@" -o "$work/$name" $sources -lm || fail "the program does not build with $CC $CFLAGS"
}

# ran NAME ARGUMENTS...: runs it on the recorded inputs.
ran() {
    name=$1
    shift
    [ "$kind" = none ] || set -- -w "$weights" "$@"
    [ ! -f program/conformance/inputs.safetensors ] || set -- -i program/conformance/inputs.safetensors "$@"
    "$work/$name" "$@" -o "$work/outputs"
}

built main
if ran main; then
    if [ "$(digest <"$work/outputs")" = "$(digest <program/conformance/outputs.safetensors)" ]; then
        say "the program's outputs are the recorded ones, bit for bit ($CC $CFLAGS)"
        exit 0
    fi
    name_parts "$work/outputs" program/conformance/outputs.safetensors
else
    say "the program failed" >&2
fi
if [ -f hashes ]; then
    built hashed -DPRESK_HASH
    ran hashed -s "$work/hashes"
    while read -r number kernel position place hash function line <&3; do
        found=
        read -r found <&4
        case $number in presk | recording) continue ;; end) break ;; esac
        if [ "$found" != "$number $kernel $position $place $hash" ]; then
            say "the first launch that differs: $number, kernel $kernel, in $function at $line" >&2
            break
        fi
    done 3<hashes 4<"$work/hashes"
fi
fail "the program does not give the recorded outputs ($CC $CFLAGS)"
