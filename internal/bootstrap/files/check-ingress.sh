#!/bin/bash
# Made by capolvm: succeeds while something answers at the ingress ports of this node.
for at in{{range .}} {{.}}{{end}}; do
    for port in 443 80; do
        if timeout 1 /bin/bash -c "exec 3<>/dev/tcp/$at/$port" 2>/dev/null; then
            exit 0
        fi
    done
done
exit 1
