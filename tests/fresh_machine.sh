#!/usr/bin/env bash
# Installs a wheel on a new Debian that has neither Rust nor this repository, and removes the duplicates of a CSV file with it:
#   tests/fresh_machine.sh dist/resemblance-*.whl
# Runs as root, and needs debootstrap and the two package registries of Debian and Python.
set -euo pipefail

wheel=$(realpath "${1:?the wheel to install}")
root=$(mktemp -d)
trap 'umount "$root/proc" 2> /dev/null || true; rm -rf "$root"' EXIT

debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates stable "$root" > "$root.log" || { tail "$root.log"; exit 1; }
mount -t proc proc "$root/proc"
cp "$wheel" "$root/root/"
# The settings with which this machine reaches the registries.
for file in /etc/pip.conf /etc/resolv.conf ${PIP_CERT:-}; do
    [ ! -f "$file" ] || install -D "$file" "$root$file"
done
cat > "$root/root/goods.csv" << 'END'
sku;name;text
1;shoes;Red running shoes
2;shoes;Red running shoes
3;lamp;"A desk lamp of brass, with a green shade; it needs a bulb of 40 watts and has a cord of two metres"
4;lamp;"A desk lamp of brass, with a green shade; it needs a bulb of 40 watts and has a cord of two meters"
5;chair;A chair of oak for the kitchen
END
inside() {
    chroot "$root" /usr/bin/env -C /root HOME=/root PATH=/root/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} ${PIP_CERT:+PIP_CERT="$PIP_CERT"} "$@"
}
inside python3 -m venv venv
if inside sh -c 'command -v cargo rustc'; then
    echo "there is a Rust on the new machine" >&2
    exit 1
fi

# The two commands of a newcomer.
inside sh -c 'pip install --quiet ./*.whl'
inside resemblance dedup goods.csv --text text --to clean/

kept=$(inside sh -c 'find clean -name "goods.csv" -not -path "*/_*" -exec cat {} +')
printf '%s\n' "$kept"
[ "$(wc -l <<< "$kept")" -eq 4 ] || { echo "three documents and the header were to stay" >&2; exit 1; }
echo "passed"
