#!/bin/bash
# Made by capolvm: writes the configuration of keepalived and of the load balancer, for the nodes that the control plane has
# now, and reloads what changed. A timer runs it.
set -euo pipefail
umask 022
self={{.Self}}
known=/etc/capolvm/control-plane # one address per line
joined=/etc/capolvm/joined       # since when this node is one of them

if [ -f /etc/kubernetes/admin.conf ]; then
    nodes=$(kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 5s get nodes --selector node-role.kubernetes.io/control-plane \
        --output 'jsonpath={range .items[*]}{.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}' 2>/dev/null || true)
    # Their addresses of this node's family. Where this node itself is missing, the answer says nothing yet.
    found=$(printf '%s\n' "$nodes" | tr ' ' '\n' | grep -F '{{.Separator}}' | sort -u || true)
    if printf '%s\n' "$found" | grep -qxF "$self"; then
        if ! [ -f "$joined" ]; then
            # Who was alone until now, or is the only one, joins nobody.
            if [ "$(wc -l <"$known")" -gt 1 ]; then touch "$joined"; else touch --date '1 hour ago' "$joined"; fi
        fi
        printf '%s\n' "$found" >"$known"
    fi
fi

# write FILE TEMPLATE LINE [SELF] puts LINE for each address but SELF, in which % is the address, where the template has a
# word with @. It fails where nothing has changed.
write() {
    local lines="" address
    mkdir -p -m 755 "$(dirname "$1")"
    while read -r address; do
        if [ -n "$address" ] && [ "$address" != "${4:-}" ]; then
            lines="$lines${3//%/$address}"$'\n'
        fi
    done <"$known"
    LINES="$lines" awk '/^@[A-Z]+@$/ { printf "%s", ENVIRON["LINES"]; next } { print }' "$2" >"$1.new"
    if cmp --silent "$1.new" "$1"; then
        rm "$1.new"
        return 1
    fi
    chmod 644 "$1.new"
    mv "$1.new" "$1"
}

if write /etc/keepalived/keepalived.conf /etc/capolvm/keepalived.conf '        %' "$self"; then
    systemctl --no-block reload-or-restart keepalived.service
fi
{{- if .HAProxy}}

if write /etc/haproxy/haproxy.cfg /etc/capolvm/haproxy.cfg '    server % {{.Open}}%{{.Close}}:{{.BackendPort}}'; then
    systemctl --no-block reload-or-restart haproxy.service
fi
{{- end}}
{{- if .Nginx}}

if write /etc/capolvm/nginx/nginx.conf /etc/capolvm/nginx.conf '        server {{.Open}}%{{.Close}}:{{.BackendPort}} max_fails=1 fail_timeout=5s;'; then
    systemctl --no-block reload-or-restart capolvm-nginx.service
fi
{{- end}}
