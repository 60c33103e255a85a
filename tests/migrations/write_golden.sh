#!/usr/bin/env bash
# Writes the golden file of the current format, once per format, at its release. The journal records where a program
# ran; so this one runs in a neutral place under a neutral name. Needs root for the name of the machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
format=$(.venv/bin/python -c 'from holdfast.stores.sqlite.connection import FORMAT_VERSION; print(FORMAT_VERSION)')
place=$(mktemp -d /tmp/golden.XXXX)
trap 'rm -rf "$place"' EXIT
python=$(readlink -f .venv/bin/python)
packages=$(.venv/bin/python -c 'import orjson, os; print(os.path.dirname(os.path.dirname(orjson.__file__)))')
mkdir -p "$place/app/tests"
cp -r src/holdfast "$place/app/holdfast"
cp -r tests/migrations "$place/app/tests/migrations"
cd "$place/app"
unshare --uts sh -c "hostname example && PYTHONPATH='$place/app:$packages' PYTHONDONTWRITEBYTECODE=1 \
  '$python' -m tests.migrations.program '$place/format.db'"
cp "$place/format.db" "$OLDPWD/tests/migrations/golden/format-$format.db"
