#!/bin/bash
# Made by capolvm: checks the configuration beside it, and has haproxy and keepalived use it. Connections that there are stay
# with the process that has them.
set -euo pipefail

# install_new FILE PATH MODE puts a file in its place; it fails where nothing has changed.
install_new() {
    if cmp --silent "$1" "$2"; then return 1; fi
    install -D --mode "$3" "$1" "$2.new"
    mv "$2.new" "$2"
}

if command -v getenforce >/dev/null && [ "$(getenforce)" != Disabled ]; then
    setsebool -P haproxy_connect_any on
fi
if command -v firewall-cmd >/dev/null && firewall-cmd --state >/dev/null 2>&1; then
    for rule in --quiet --permanent; do # now, and after a reboot
        while read -r port; do firewall-cmd --quiet "$rule" --add-port "$port/tcp"; done <ports
        firewall-cmd --quiet "$rule" --add-protocol vrrp
    done
fi

haproxy -c -f haproxy.cfg
if [ -f keepalived.conf ]; then
    install_new check.sh /etc/keepalived/capolvm-check.sh 755 || true
    keepalived --config-test --use-file "$PWD/keepalived.conf"
fi

# What was begun and not ended is done again.
again=no
if [ -f ../begun ]; then again=yes; fi
touch ../begun
if install_new haproxy.cfg /etc/haproxy/haproxy.cfg 644 || [ $again = yes ]; then
    systemctl --no-block reload-or-restart haproxy.service
fi
systemctl enable haproxy.service
if [ -f keepalived.conf ]; then
    if install_new keepalived.conf /etc/keepalived/keepalived.conf 644 || [ $again = yes ]; then
        systemctl --no-block reload-or-restart keepalived.service
    fi
    systemctl enable keepalived.service
fi
rm -f ../begun
