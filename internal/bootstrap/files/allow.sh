#!/bin/bash
# Made by capolvm: has SELinux and firewalld allow what the services of this VM do. It changes nothing where they are not
# installed, do not run, or allow it already. What fails does not keep it from the rest.
set -uo pipefail
failed=0
{{- if .Booleans}}

# turn_on BOOLEAN, which stays on. Setting one takes seconds, and other policies do not have those of Oracle Linux.
turn_on() {
    local now
    if command -v getsebool >/dev/null; then
        if ! now=$(getsebool "$1" 2>/dev/null); then
            echo "SELinux's policy has no boolean $1"
            return 0
        fi
        case "$now" in *' on') return 0 ;; esac
    fi
    setsebool -P "$1=on"
}
{{- if .HTTPPorts}}

# label_http PORT as one where nginx may listen.
label_http() {
    if ! command -v semanage >/dev/null; then
        echo "SELinux may keep nginx from port $1; have policycoreutils-python-utils in the image" >&2
        return 0
    fi
    # All of the list is read: a pipe that ends early is an error.
    if grep --quiet --extended-regexp "^http_port_t +tcp .*\b$1\b" <<<"$(semanage port -l)"; then return 0; fi
    # The port may be that of another type.
    semanage port -a -t http_port_t -p tcp "$1" 2>/dev/null || semanage port -m -t http_port_t -p tcp "$1"
}
{{- end}}

if command -v getenforce >/dev/null && [ "$(getenforce)" != Disabled ]; then
{{- range .Booleans}}
    turn_on {{.}} || failed=1
{{- end}}
{{- range .HTTPPorts}}
    label_http {{.}} || failed=1
{{- end}}
fi
{{- end}}
{{- if or .Ports .Protocols .NeighborRules .Trusted}}

# open OPTION... has the firewall let something in now, and after a reboot. A call takes rules of one kind.
open() {
    firewall-cmd --quiet "$@" || failed=1
    firewall-cmd --quiet --permanent "$@" || failed=1
}
if command -v firewall-cmd >/dev/null && firewall-cmd --state >/dev/null 2>&1; then
{{- if .Ports}}
    open{{range .Ports}} --add-port={{.}}{{end}}
{{- end}}
{{- range .Protocols}}
    open --add-protocol={{.}}
{{- end}}
{{- with .NeighborRules}}
    open{{range .}} \
        --add-rich-rule='{{.}}'{{end}}
{{- end}}
{{- range .Trusted}}
    open --zone=trusted --add-source={{.}}
{{- end}}
fi
{{- end}}
exit $failed
