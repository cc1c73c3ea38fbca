#!/bin/bash
# Made by capolvm: writes the configuration of those services that know the nodes of the cluster, for the nodes that it has now,
# and reloads what changed. A timer runs it.
set -euo pipefail
umask 022

# Name, labels as JSON, and addresses of each node; nothing where there is no answer.
ask() {
    kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 5s "$@" get nodes \
        --output 'jsonpath={range .items[*]}{.metadata.name} {.metadata.labels}{range .status.addresses[?(@.type=="InternalIP")]} {.address}{end}{"\n"}{end}' 2>/dev/null || true
}
nodes=""
if [ -f /etc/kubernetes/admin.conf ]; then
{{- if .OwnPort}}
    # This node's own API server first: the endpoint may have no holder until this node has learned that it may be one.
    nodes=$(ask --server https://{{.Open}}{{.Self}}{{.Close}}:{{.OwnPort}})
{{- end}}
    nodes=${nodes:-$(ask)}
fi
{{- if .Domain}}

# Who does not hold the endpoint's address answers at it as soon as it does.
sysctl -qw net.ipv4.ip_nonlocal_bind=1 net.ipv6.ip_nonlocal_bind=1 || true
zone=/etc/capolvm/dns/nodes.zone
records=$(while read -r name _ addresses; do
    for address in $addresses; do
        case "$address" in *:*) kind=AAAA ;; *) kind=A ;; esac
        printf '%s IN %s %s\n' "${name%.{{.Domain}}}" "$kind" "$address"
    done
done <<<"$nodes" | sort -u)
if [ -n "$records" ] && [ "$records" != "$(tail -n +5 "$zone" | sort -u)" ]; then
    head -n 4 "$zone" | sed -E "s/^(@ IN SOA @ hostmaster) [0-9]+/\1 $(date +%s)/" >"$zone.new"
    printf '%s\n' "$records" >>"$zone.new"
    mv "$zone.new" "$zone"
fi
{{- end}}
{{- if .Keepalived}}

self={{.Self}}
known=/etc/capolvm/control-plane # one address per line
joined=/etc/capolvm/joined       # since when this node is one of them

# The addresses of the control plane of this node's family. Where this node itself is missing, the answer says nothing yet.
found=$(while read -r _ labels addresses; do
    case "$labels" in *'"node-role.kubernetes.io/control-plane"'*)
        for address in $addresses; do
            case "$address" in *{{.Separator}}*) echo "$address" ;; esac
        done
        ;;
    esac
done <<<"$nodes" | sort -u)
if printf '%s\n' "$found" | grep -qxF "$self"; then
    if ! [ -f "$joined" ]; then
        # Who was alone until now, or is the only one, joins no other.
        if [ "$(wc -l <"$known")" -gt 1 ]; then touch "$joined"; else touch --date '1 hour ago' "$joined"; fi
    fi
    printf '%s\n' "$found" >"$known"
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
{{- end}}
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
