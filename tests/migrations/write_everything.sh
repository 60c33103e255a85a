#!/usr/bin/env bash
# Wrote the golden stores of format 1 (tests/migrations/golden/format-1), with the code of format 1. Never run it again: a later
# format has scenes of its own. In a neutral place under a neutral name, as write_golden.sh; needs root and .venv-aws.
set -euo pipefail
cd "$(dirname "$0")/../.."
place=/tmp/golden
rm -rf "$place"
trap 'rm -rf "$place"' EXIT
python=$(readlink -f .venv/bin/python)
packages=$(.venv/bin/python -c 'import orjson, os; print(os.path.dirname(os.path.dirname(orjson.__file__)))')
mkdir -p "$place/app/tests"
cp -r src/holdfast "$place/app/holdfast"
cp -r tests/migrations tests/support/model_server tests/support/postgres tests/support/aws "$place/app/tests/"
ln -s "$PWD/.venv-aws" "$place/app/.venv-aws"
cd "$place/app"
unshare --uts sh -c "hostname example && PYTHONPATH='$place/app:$packages' PYTHONDONTWRITEBYTECODE=1 \
  '$python' -m tests.migrations.write_everything '$place/out'"
rm -rf "$OLDPWD/tests/migrations/golden/format-1"
cp -r "$place/out" "$OLDPWD/tests/migrations/golden/format-1"
