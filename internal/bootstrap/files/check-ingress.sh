#!/bin/bash
# Made by capolvm: succeeds while something answers at the ingress ports of this node.
for port in 443 80; do
    if timeout 2 /bin/bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null; then
        exit 0
    fi
done
exit 1
