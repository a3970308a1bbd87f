#!/bin/sh
# cached_cc.sh FOLDER COMPILER ARGUMENTS...: compiles, or copies the object that the same source, headers and flags gave.
# The tests build many programs whose runtime is the same.
set -eu
cache=$1
shift
source= object= compiles=no previous=
for argument in "$@"; do
    [ "$argument" = -c ] && compiles=yes
    [ "$previous" = -o ] && object=$argument
    case $argument in *.c) source=$argument ;; esac
    previous=$argument
done
[ "$compiles" = yes ] && [ -n "$source" ] || exec "$@"
case $source in
    presk_*) headers=$(echo presk_*.h) ;;
    *) headers=$(echo *.h) ;;
esac
# shellcheck disable=SC2086 # the headers are words
key=$({ echo "$@" && cat $headers "$source"; } | sha256sum | cut -c1-64)
if [ ! -f "$cache/$key.o" ]; then
    "$@"
    cp "$object" "$cache/$key.o.$$"
    mv "$cache/$key.o.$$" "$cache/$key.o"
else
    cp "$cache/$key.o" "$object"
fi
