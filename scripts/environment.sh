# Sourced by the other scripts: makes .venv with the exact versions of constraints.txt, or reuses it.
# Usage: source scripts/environment.sh [extras]; afterwards the environment is active.
extras="${1:-dev}"
venv="$PWD/.venv"

python="$(command -v python3.11 || command -v python3 || true)"
if [[ -z "$python" ]] || ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))'; then
    echo "Python 3.11 or newer is needed; install it and run this again" >&2
    exit 3
fi
if [[ ! -x "$venv/bin/python" ]]; then
    echo "making $venv" >&2
    "$python" -m venv "$venv"
fi

# The stamp is written last: an installation that was interrupted is done again.
digest='import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
wanted="$(cat pyproject.toml constraints.txt | "$python" -c "$digest")"
stamp="$venv/.msshift-$extras"
if [[ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]]; then
    echo "installing the extras $extras into $venv (a few minutes the first time)" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        -c constraints.txt -e ".[$extras]"
    echo "$wanted" >"$stamp"
fi
export PATH="$venv/bin:$PATH"
