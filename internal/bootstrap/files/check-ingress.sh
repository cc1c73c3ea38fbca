#!/bin/bash
# Made by capolvm: succeeds while something answers at the ingress ports of this node.
#
# A node that joins others may hold the address only when they have had the time to learn of it: until then they do not tell
# it that one of them holds it.
joined=/etc/capolvm/joined-ingress
if ! [ -f "$joined" ] || [ $(($(date +%s) - $(stat --format %Y "$joined"))) -lt 25 ]; then
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
