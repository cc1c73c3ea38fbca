#!/bin/bash
# Made by capolvm: writes the configuration of those services that know the nodes of the cluster, for the nodes that it has now,
# and reloads what changed. A timer runs it.
set -euo pipefail
umask 022
PATH=$PATH:/opt/bin # Flatcar's programs of Kubernetes are there

# Name, labels as JSON, and addresses of each node; nothing where there is no answer. A kubelet may report any text as its
# address, and any number of them: what is none is left out, and so is what comes after four.
ask() {
    kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 5s "$@" get nodes \
        --output 'jsonpath={range .items[*]}{.metadata.name} {.metadata.labels}{range .status.addresses[?(@.type=="InternalIP")]} {.address}{end}{"\n"}{end}' 2>/dev/null |
        awk '{
            line = $1 " " $2
            for (i = 3; i <= NF && i <= 6; i++) if ($i ~ /^([0-9]+\.[0-9]+\.[0-9]+\.[0-9]+|[0-9a-f]*:[0-9a-f:]*:[0-9a-f.]*)$/) line = line " " $i
            print line
        }' || true
}
nodes="" server=()
if [ -f /etc/kubernetes/admin.conf ]; then
{{- if .OwnPort}}
    # This node's own API server first: the endpoint may have no holder until this node has learned that it may be one.
    server=(--server https://{{.Open}}{{.Self}}{{.Close}}:{{.OwnPort}})
    nodes=$(ask "${server[@]}")
{{- end}}
    if [ -z "$nodes" ]; then
        server=()
        nodes=$(ask)
    fi
fi
{{- if .Ingress}}

# publish ADDRESSES has each kubelet read them.
publish() {
    local kube=(kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 5s "${server[@]}" --namespace kube-system)
    local told
    if [ -z "$1" ]; then return 0; fi
    told=$("${kube[@]}" get configmap/capolvm-nodes role/capolvm-nodes rolebinding/capolvm-nodes \
        --output 'jsonpath={.items[*].data.addresses}' 2>/dev/null) || told=""
    if [ "$told" = "$1" ]; then return 0; fi
    "${kube[@]}" apply --server-side --force-conflicts --field-manager capolvm --validate=false --filename - >/dev/null <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: capolvm-nodes, namespace: kube-system}
data: {addresses: "$1"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: capolvm-nodes, namespace: kube-system}
rules:
- {apiGroups: [""], resources: [configmaps], resourceNames: [capolvm-nodes], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: capolvm-nodes, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: capolvm-nodes}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}
END
}
{{- end}}
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

{{- if .Ingress}}

# The nodes that may hold the ingress address, of its family. A kubelet may not list nodes: those of the control plane keep the
# addresses in a ConfigMap that it may read.
all=/etc/capolvm/nodes                   # one address per line
joined_ingress=/etc/capolvm/joined-ingress # since when this node is one of them
if [ -f /etc/kubernetes/admin.conf ]; then
    members=$(while read -r _ _ addresses; do
        for address in $addresses; do echo "$address"; done
    done <<<"$nodes" | sort -u | paste -s -d ' ')
    publish "$members" || echo "the nodes cannot be told of each other" >&2
else
    members=$(kubectl --kubeconfig /etc/kubernetes/kubelet.conf --request-timeout 5s --namespace kube-system get configmap \
        capolvm-nodes --output 'jsonpath={.data.addresses}' 2>/dev/null || true)
fi
members=$(tr ' ' '\n' <<<"$members" | grep -F '{{.IngressSeparator}}' || true)
if printf '%s\n' "$members" | grep -qxF {{.IngressSelf}}; then
    if ! [ -f "$joined_ingress" ]; then
        if [ "$members" = {{.IngressSelf}} ]; then touch --date '1 hour ago' "$joined_ingress"; else touch "$joined_ingress"; fi
    fi
    printf '%s\n' "$members" >"$all"
fi
{{- end}}

# lines FILE LINE [BUT] writes LINE for each address of a file but one. In LINE % is the address.
lines() {
    local address
    while read -r address; do
        if [ -n "$address" ] && [ "$address" != "${3:-}" ]; then printf '%s\n' "${2//%/$address}"; fi
    done <"$1"
}

# write FILE TEMPLATE WORD LINES... puts the lines where the template has @WORD@. It fails where nothing has changed.
write() {
    local file=$1 template=$2
    shift 2
    mkdir -p -m 755 "$(dirname "$file")"
    cp "$template" "$file.new"
    while [ $# -gt 0 ]; do
        LINES=$2 awk -v word="@$1@" '$0 == word { if (ENVIRON["LINES"] != "") print ENVIRON["LINES"]; next } { print }' \
            "$file.new" >"$file.newer" || { rm -f "$file.new" "$file.newer"; return 1; }
        mv "$file.newer" "$file.new"
        shift 2
    done
    if cmp --silent "$file.new" "$file"; then
        rm "$file.new"
        return 1
    fi
    chmod 644 "$file.new"
    mv "$file.new" "$file"
}

if write /etc/keepalived/keepalived.conf /etc/capolvm/keepalived.conf \
    PEERS "$(lines "$known" '        %' "$self")"{{if .Ingress}} \
    NODES "$(lines "$all" '        %' {{.IngressSelf}})"{{end}}; then
    systemctl --no-block reload-or-restart keepalived.service
fi
{{- end}}
{{- if .HAProxy}}

if write /etc/haproxy/haproxy.cfg /etc/capolvm/haproxy.cfg \
    BACKENDS "$(lines "$known" '    server % {{.Open}}%{{.Close}}:{{.BackendPort}}')"; then
    systemctl --no-block reload-or-restart haproxy.service
fi
{{- end}}
{{- if .Nginx}}

if write /etc/capolvm/nginx/nginx.conf /etc/capolvm/nginx.conf \
    BACKENDS "$(lines "$known" '        server {{.Open}}%{{.Close}}:{{.BackendPort}} max_fails=1 fail_timeout=5s;')"; then
    systemctl --no-block reload-or-restart capolvm-nginx.service
fi
{{- end}}
