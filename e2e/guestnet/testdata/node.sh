#!/bin/bash
# The inside of a node, in namespaces of its own: /etc is the image's with the files of the user data, and the commands of the
# user data run. ROOT has the files; PATH begins with the programs that stand in for systemd's.
set -euo pipefail
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$ROOT/etc,workdir=$ROOT/work" /etc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /home
mount -t tmpfs tmpfs /usr/local/bin
mount -t tmpfs tmpfs /var/lib
mkdir /run/sshd
ip link set lo up
/bin/bash "$ROOT/commands.sh"
echo started
# Until the test ends, however it does. The shell stays, because somebody must wait for processes whose parents were killed.
cat >/dev/null
