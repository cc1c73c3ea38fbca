#!/bin/bash
# Made by capolvm: asks the manager about the machines of this cluster. It asks the engine as a user of the jump host's own.
set -euo pipefail
usage() {
    echo "usage: host list | host reboot NODE | host console NODE" >&2
    exit 2
}

# ask METHOD PATH writes the answer, and fails with it where the manager refuses.
ask() {
    local answer code
    answer=$(mktemp)
    code=$(curl --silent --show-error --max-time 60 --proto '=https' --noproxy '*' --cacert /etc/capolvm/jump/authority.pem \
        --config /etc/capolvm/jump/request --request "$1" --output "$answer" --write-out '%{http_code}' \
        "$(cat /etc/capolvm/jump/url)$2") || exit 1
    case "$code" in
    2??) cat "$answer" ;;
    *)
        cat "$answer" >&2
        rm -f "$answer"
        exit 1
        ;;
    esac
    rm -f "$answer"
}

# name NODE is the name, if it can be one.
name() {
    case "$1" in '' | *[!a-z0-9.-]*) echo "$1 is no name of a machine; see: host list" >&2 && exit 2 ;; esac
    echo "$1"
}

case "${1:-} $#" in
"list 1") ask GET "" ;;
"reboot 2") node=$(name "$2") && ask POST "/$node/reboot" ;;
"console 2")
    node=$(name "$2")
    file="$node.vv"
    (umask 077 && ask POST "/$node/console" >"$file.new") || { rm -f "$file.new" && exit 1; }
    mv "$file.new" "$file"
    if [ -n "${DISPLAY:-}" ] && command -v remote-viewer >/dev/null; then exec remote-viewer "$file"; fi
    echo "$file is for remote-viewer, for some minutes"
    ;;
*) usage ;;
esac
