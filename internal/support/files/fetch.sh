#!/bin/bash
# Made by capolvm: fetches the configuration of this VM's service from the manager, and applies what is new. A timer runs it.
# While the manager is away, or where a configuration is refused, the last one stays.
set -euo pipefail
umask 077
cd /etc/capolvm/service

applied=$(cat applied 2>/dev/null || true)
problem=$(tail --bytes 600 problem 2>/dev/null | base64 --wrap 0 || true)
rm -rf next next.tar

# The request has the token, and the authority is that of the manager alone.
code=$(curl --silent --show-error --max-time 20 --proto '=https' --noproxy '*' --cacert authority.pem --config request \
    --header "If-None-Match: \"$applied\"" --header "Capolvm-Problem: $problem" \
    --output next.tar --write-out '%{http_code}')
case "$code" in
304)
    rm -f problem
    exit 0
    ;;
200) ;;
*)
    echo "the manager answers $code; the last configuration stays" >&2
    exit 1
    ;;
esac

# What was refused a moment ago is not tried again at once: a try may cost connections.
hash=$(sha256sum next.tar | cut --delimiter ' ' --fields 1)
if [ "$hash" = "$(cat refused 2>/dev/null)" ] && [ -n "$(find refused -mmin -5)" ]; then
    echo "the configuration was refused, see problem; it is tried again after 5 minutes, and another one at once" >&2
    exit 1
fi

mkdir next
tar --extract --no-same-owner --file next.tar --directory next
if ! (cd next && /bin/bash ./apply.sh) >problem.new 2>&1; then
    mv problem.new problem
    echo "$hash" >refused
    echo "the new configuration is refused, and the last one stays:" >&2
    cat problem >&2
    exit 1
fi
echo "$hash" >applied.new
mv applied.new applied
rm -f problem problem.new refused
