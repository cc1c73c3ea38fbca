#!/bin/bash
# Made by capolvm: succeeds while something answers at the ingress ports of this node.
#
# A node that joins others may hold the address only when they have had the time to learn of it: until then they do not tell
# it that one of them holds it.
joined=/etc/capolvm/joined-ingress wait=25
# Control planes of earlier releases, and of other bootstrap providers, tell of no nodes. Without peers keepalived multicasts.
if ! [ -f "$joined" ]; then joined=/etc/capolvm/nodes wait=300; fi
if ! [ -f "$joined" ] || [ $(($(date +%s) - $(stat --format %Y "$joined"))) -lt $wait ]; then
    exit 1
fi
for at in{{range .}} {{.}}{{end}}; do
    for port in 443 80; do
        if timeout 1 /bin/bash -c "exec 3<>/dev/tcp/$at/$port" 2>/dev/null; then
            exit 0
        fi
    done
done
exit 1
