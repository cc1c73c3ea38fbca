#!/bin/bash
# Made by capolvm: has Dex use the configuration beside it. Where Dex does not come up with it, the files are as before.
set -euo pipefail
home=/etc/capolvm/dex
unit=capolvm-dex.service

# serves succeeds when Dex says who it is, with the certificate that it is to have.
serves() {
    curl --silent --fail --max-time 2 --noproxy '*' --cacert "$1/ca.crt" --connect-to "$(cat "$1/connect")" --output /dev/null \
        "$(cat "$1/discovery")"
}

# use FOLDER puts its files in their places, and starts Dex with them.
use() {
    local file
    for file in dex.yaml tls.crt tls.key; do
        install --mode 640 --group capolvm-dex "$1/$file" "$home/$file.new"
        mv "$home/$file.new" "$home/$file"
    done
    install --mode 644 "$1/$unit" "/etc/systemd/system/$unit"
    systemctl daemon-reload
    systemctl enable "$unit"
    systemctl restart "$unit"
}

command -v dex >/dev/null || { echo "there is no dex in the image" >&2 && exit 1; }
if command -v openssl >/dev/null; then openssl verify -partial_chain -CAfile ca.crt tls.crt >/dev/null; fi
id capolvm-dex >/dev/null 2>&1 || useradd --system --shell /usr/sbin/nologin --home-dir /var/lib/capolvm-dex capolvm-dex
install --directory --mode 750 --owner capolvm-dex /var/lib/capolvm-dex
install --directory --mode 750 --group capolvm-dex "$home"
/bin/bash ./allow.sh

use "$PWD"
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    if serves "$PWD"; then break; fi
    if [ "$try" = 20 ]; then
        echo "Dex does not come up with the new configuration:" >&2
        if command -v journalctl >/dev/null; then journalctl --unit "$unit" --lines 5 --output cat --no-pager >&2 || true; fi
        if [ -d "$home/last" ]; then use "$home/last"; fi
        exit 1
    fi
    sleep 0.5
done

# This is what is gone back to.
rm -rf "$home/last.new"
cp --recursive "$PWD" "$home/last.new"
chmod 700 "$home/last.new"
rm -rf "$home/last"
mv "$home/last.new" "$home/last"
