#!/bin/bash
# Made by capolvm: checks the configuration beside it, and has haproxy and keepalived use it. Connections that there are stay
# with the process that has them. Where something fails, the files are as before.
set -euo pipefail

{{template "install_new.sh"}}
# serves succeeds when haproxy uses the new configuration.
serves() {
    local page
    page=$(curl --silent --noproxy '*' --max-time 2 "http://127.0.0.1:$(sed -n 's/.* bind 127.0.0.1://p' haproxy.cfg)/") || return 1
    case "$page" in *"$(sed -n 's/.* stats show-node //p' haproxy.cfg)"*) return 0 ;; esac
    return 1
}

# What the system must allow, unless it does already: each command takes seconds.
if ! cmp --silent allow.sh ../allowed; then
    /bin/bash ./allow.sh
    cp allow.sh ../allowed
fi

# An image may have IPv6 turned off.
if ! [ -e /proc/net/if_inet6 ]; then sed -i '/^    bind ::.* v6only$/d' haproxy.cfg; fi
haproxy -c -f haproxy.cfg
if [ -f keepalived.conf ]; then
    install_new check.sh /etc/keepalived/capolvm-check.sh 755 || true
    keepalived --config-test --use-file "$PWD/keepalived.conf"
fi

# What was begun and not ended is done again.
again=no
if [ -f ../begun ]; then again=yes; fi
touch ../begun
units=haproxy
if [ -f keepalived.conf ]; then units="haproxy keepalived"; fi
reload=$again
for unit in $units; do
    if install_new start-again.conf "/etc/systemd/system/$unit.service.d/10-capolvm.conf" 644; then reload=yes; fi
done
if [ $reload = yes ]; then systemctl daemon-reload; fi
cp /etc/haproxy/haproxy.cfg before.cfg 2>/dev/null || true
if install_new haproxy.cfg /etc/haproxy/haproxy.cfg 644 || [ $again = yes ]; then
    systemctl --no-block reload-or-restart haproxy.service
fi
systemctl enable haproxy.service

# A port that another program has, or a limit that is too low, shows only now.
for try in 1 2 3 4 5 6 7 8 9 10; do
    if serves; then break; fi
    if [ "$try" = 10 ]; then
        echo "haproxy does not come up with the new configuration; see its journal" >&2
        if [ -f before.cfg ]; then
            install_new before.cfg /etc/haproxy/haproxy.cfg 644 || true
            systemctl --no-block reload-or-restart haproxy.service
        fi
        exit 1
    fi
    sleep 0.5
done

if [ -f keepalived.conf ]; then
    if install_new keepalived.conf /etc/keepalived/keepalived.conf 644 || [ $again = yes ]; then
        systemctl --no-block reload-or-restart keepalived.service
    fi
    systemctl enable keepalived.service
elif head -n 1 /etc/keepalived/keepalived.conf 2>/dev/null | grep --quiet '^# Made by capolvm'; then
    # The address is another's now.
    systemctl disable --now keepalived.service
    rm -f /etc/keepalived/keepalived.conf
fi
rm -f ../begun
