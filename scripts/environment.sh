# Sourced by the other scripts: makes .venv and installs the package into it, editable.
# PYTHON chooses the interpreter. Nothing outside the repository is changed.

fail() {
  echo "moonpoly: error: $*" >&2
  exit 1
}

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
    if command -v "$candidate" >/dev/null &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      command -v "$candidate"
      return
    fi
  done
  fail "Python 3.11 or newer is needed, found ${PYTHON:-$(python3 --version 2>/dev/null || echo none)};" \
    "install it, or set PYTHON=/path/to/python"
}

prepare_environment() { # EXTRAS, such as test,dev
  local extras=$1 python stamp wanted
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null ||
    fail "a C++ compiler is needed; install g++ or clang++"
  if [[ ! -x .venv/bin/python ]]; then
    python=$(find_python)
    echo "Making .venv with $("$python" --version)"
    "$python" -m venv .venv ||
      fail "can't make .venv; install the venv module of this Python (Debian: python3-venv)"
  fi
  # Dependencies are resolved again only when the list of them changes.
  stamp=.venv/installed-$extras
  wanted=$(sha256sum pyproject.toml | cut -d' ' -f1)
  if [[ ! -f $stamp || $(<"$stamp") != "$wanted" ]]; then
    echo "Installing dependencies"
    .venv/bin/python - "$extras" >.venv/requirements.txt <<'PYTHON'
import sys, tomllib

with open("pyproject.toml", "rb") as stream:
    settings = tomllib.load(stream)
extras = settings["project"]["optional-dependencies"]
lines = settings["build-system"]["requires"] + settings["project"]["dependencies"]
lines += [line for name in sys.argv[1].split(",") for line in extras[name]]
print("\n".join(["cmake>=3.26", "ninja>=1.11", *lines]))
PYTHON
    .venv/bin/pip install --quiet --disable-pip-version-check -r .venv/requirements.txt ||
      fail "the dependencies can't be installed; see pip's message above"
  fi
  echo "Building and installing moonpoly"
  # No isolation: the build finds TVM in .venv instead of downloading it a second time.
  PATH="$PWD/.venv/bin:$PATH" .venv/bin/pip install --quiet --disable-pip-version-check \
    --no-build-isolation --no-deps -e . || fail "the build failed; see the compiler's message above"
  echo "$wanted" >"$stamp"
}
