#!/bin/bash
# Made by capolvm: checks the configuration beside it, and has sshd and the user use it.
set -euo pipefail
user=$(cat user)
home=/etc/capolvm/jump

{{template "install_new.sh"}}
# include_first FILE FOLDER has the files of a folder go before all else: the first value of a setting counts. It fails where
# that is so already.
include_first() {
    local line="Include $2/*.conf"
    if [ "$(grep --extended-regexp --invert-match --max-count 1 '^[[:space:]]*(#|$)' "$1")" = "$line" ]; then return 1; fi
    sed -i "1i $line" "$1"
}
if ! id "$user" >/dev/null 2>&1; then
    # A password that nothing matches; a locked account could not log in with a key either.
    useradd --create-home --shell /bin/bash --password '*' "$user"
fi

# The keys and the kubeconfig are for the user alone.
install --directory --mode 755 "$home" "$home/keys"
for key in key-*; do
    if [ -f "$key" ]; then install_new "$key" "$home/keys/${key#key-}" 600 "$user" || true; fi
done
for key in "$home"/keys/*; do
    if [ -f "$key" ] && ! [ -f "key-${key##*/}" ]; then rm -f "$key"; fi
done
if [ -s kubeconfig ]; then
    install_new kubeconfig "$home/kubeconfig" 600 "$user" || true
else
    rm -f "$home/kubeconfig"
fi

# What the command host asks with.
install_new ../authority.pem "$home/authority.pem" 644 || true
sed -n 's#^url = "\(.*\)/v1/configuration/\(.*\)"$#\1/v1/hosts/\2#p' ../request >url
# A token of its own: that of the VM is for its configuration, and root's.
token=$(sed -n 's/^header = "Authorization: Bearer \(.*\)"$/\1/p' ../request)
hosts=$(printf 'hosts:%s' "$token" | sha256sum | cut --delimiter ' ' --fields 1)
printf 'header = "Authorization: Bearer %s"\n' "$hosts" >request
install_new url "$home/url" 644 || true
install_new request "$home/request" 600 "$user" || true
install_new host /usr/local/bin/host 755 || true

# Names of the nodes.
install_new ssh.conf /etc/ssh/ssh_config.d/00-capolvm.conf 644 || true
rm -f /etc/ssh/ssh_config.d/10-capolvm.conf # its former name
include_first /etc/ssh/ssh_config /etc/ssh/ssh_config.d || true
sed '/ # capolvm$/d' /etc/hosts >hosts.new
cat hosts >>hosts.new
cat hosts.new >/etc/hosts # it may be a mount

# sshd last: whoever is there stays there.
install_new authorized_keys "$home/authorized_keys" 644 || true
cp /etc/ssh/sshd_config.d/00-capolvm.conf before.conf 2>/dev/null || true
cp /etc/ssh/sshd_config.d/10-capolvm.conf former.conf 2>/dev/null || true # its former name
cp --preserve /etc/ssh/sshd_config sshd_config.before
changed=no
if include_first /etc/ssh/sshd_config /etc/ssh/sshd_config.d; then changed=yes; fi
# Files are read by their names: that of Anaconda for root's passwords begins with 01.
if install_new sshd.conf /etc/ssh/sshd_config.d/00-capolvm.conf 600; then changed=yes; fi
if [ -f former.conf ]; then
    rm -f /etc/ssh/sshd_config.d/10-capolvm.conf
    changed=yes
fi
if [ $changed = yes ]; then
    if ! sshd -t; then
        echo "sshd refuses its configuration; one older than OpenSSH 8.2 may not know Include: update it in the image" >&2
        rm -f /etc/ssh/sshd_config.d/00-capolvm.conf
        if [ -f before.conf ]; then install --mode 600 before.conf /etc/ssh/sshd_config.d/00-capolvm.conf; fi
        if [ -f former.conf ]; then install --mode 600 former.conf /etc/ssh/sshd_config.d/10-capolvm.conf; fi
        cat sshd_config.before >/etc/ssh/sshd_config # it keeps its label
        exit 1
    fi
    unit=sshd.service
    if ! systemctl cat "$unit" >/dev/null 2>&1; then unit=ssh.service; fi
    systemctl --no-block reload-or-restart "$unit"
fi
