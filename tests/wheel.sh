#!/bin/sh
# wheel.sh PYTHON: builds the wheel, lists what must be in it, installs it alone outside the checkout, and uses it.
set -eu
python=$1
here=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip wheel -q --no-deps -w "$work" .
rm -rf build ./*.egg-info
"$python" -m zipfile -l "$work"/presk-*.whl >"$work/list"
for needed in presk_db/_share/generators/c_program/model.c.mako presk_db/_share/generators/c_program/names.sql \
    presk_db/_share/generators/scop/nests.sql presk_db/_share/runtime_c/presk_rt.c presk_db/_share/migrations/env.py presk_db/_share/migrations/versions/; do
    grep -q "$needed" "$work/list" || { echo "the wheel lacks $needed" >&2; exit 1; }
done
if grep -qE ' (generators|migrations|runtime_c|tests)/' "$work/list"; then
    echo "the wheel puts a folder beside presk_db" >&2
    exit 1
fi
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -q "$work"/presk-*.whl
cp -R "$here/fixtures/course_gpt" "$work/"
cd "$work"
venv/bin/presk record course_gpt/config.json --dim T=8 --name wheel
venv/bin/presk check wheel
venv/bin/presk emit wheel --generator scop -o scop
venv/bin/presk query forms_by_use wheel
venv/bin/presk archive wheel -o wheel.tar.gz
venv/bin/presk import wheel.tar.gz --db other.db
venv/bin/presk diff wheel wheel --db2 other.db
venv/bin/presk verify wheel.tar.gz --cflags=-O1
