#!/bin/sh
# What every base image holds, on top of Debian or Ubuntu. Runs once, as root, in a container or in a chroot.
# Beside it lie: packages (one a line), wheels/ (uv), ca/ (certificates of this host).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
export DEBIAN_FRONTEND=noninteractive

command -v apt-get >/dev/null || {
    echo "this image has no apt-get: only images based on Debian or Ubuntu can be used" >&2
    exit 3
}

# Installing a package must not start its service, and must not leave its archive in a frozen image.
[ -e /usr/sbin/policy-rc.d ] || {
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
}
echo 'APT::Keep-Downloaded-Packages "false";' >/etc/apt/apt.conf.d/01researchenv

missing=
while read -r package; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done <"$here/packages"
if [ -n "$missing" ]; then
    apt-get update
    # shellcheck disable=SC2086 # one word a package
    apt-get install --yes --no-install-recommends $missing
fi
apt-get clean
rm -rf /var/lib/apt/lists/*

mkdir -p /usr/local/share/ca-certificates
cp "$here"/ca/*.crt /usr/local/share/ca-certificates/ 2>/dev/null || true
update-ca-certificates

# uv lives in a virtual environment of its own, so that the bare system interpreter has no packages but pip.
python3 -m venv /opt/uv
/opt/uv/bin/pip install --isolated --no-cache-dir --no-index --no-deps --disable-pip-version-check "$here"/wheels/*.whl
ln -sf /opt/uv/bin/uv /opt/uv/bin/uvx /usr/local/bin/

# Mount points that are there already leave no trace when a container is frozen.
mkdir -p /researchenv/host /researchenv/tools
mkdir -p /workspace
chmod 1777 /researchenv /workspace

# A build that went wrong must not become an image.
python3 --version
uv --version
for tool in git curl cc c++ cmake ninja; do command -v "$tool"; done

rm -rf "$here"
