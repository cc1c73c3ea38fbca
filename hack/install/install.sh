#!/bin/sh
# Installs olvmctl of a release, once it has checked its checksum, and the signature of the checksums if cosign is there.
#
#   curl -fsSLO https://github.com/capolvm/cluster-api-provider-olvm/releases/download/v0.1.0/install.sh
#   sh install.sh [FOLDER]      FOLDER is ~/.local/bin if it is omitted
set -eu

version=@VERSION@
repository=https://github.com/capolvm/cluster-api-provider-olvm
# CAPOLVM_RELEASE is another place of the release's files, such as file:///srv/capolvm/v0.1.0.
release=${CAPOLVM_RELEASE:-$repository/releases/download/$version}
folder=${1:-$HOME/.local/bin}
case $folder in
/*) ;;
*) folder=$PWD/$folder ;;
esac

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

system=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
x86_64 | amd64) architecture=amd64 ;;
aarch64 | arm64) architecture=arm64 ;;
*) fail "there is no olvmctl for $(uname -m); build it: go build ./cmd/olvmctl" ;;
esac
case $system in
linux | darwin) ;;
*) fail "there is no olvmctl for $system; build it: go build ./cmd/olvmctl" ;;
esac

name=olvmctl-$system-$architecture
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

for file in "$name" checksums.txt; do
  curl -fsSL -o "$file" "$release/$file" || fail "failed to download $release/$file"
done

if command -v cosign >/dev/null; then
  curl -fsSL -o checksums.txt.bundle "$release/checksums.txt.bundle" || fail "failed to download the signature"
  cosign verify-blob --bundle checksums.txt.bundle \
    --certificate-identity "$repository/.github/workflows/release.yaml@refs/tags/$version" \
    --certificate-oidc-issuer https://token.actions.githubusercontent.com checksums.txt ||
    fail "the checksums are not signed by the release workflow of $version"
else
  echo "install.sh: cosign is not installed: the signature of the checksums is not verified" >&2
fi

wanted=$(awk -v name="$name" '$2 == name {print $1}' checksums.txt)
[ -n "$wanted" ] || fail "checksums.txt does not have $name"
if command -v sha256sum >/dev/null; then
  found=$(sha256sum "$name")
else
  found=$(shasum -a 256 "$name")
fi
[ "${found%% *}" = "$wanted" ] || fail "$name has another checksum than checksums.txt says: it is not installed"

mkdir -p "$folder"
chmod 755 "$name"
mv "$name" "$folder/olvmctl"
ln -sf olvmctl "$folder/kubectl-olvm"
ln -sf olvmctl "$folder/clusterctl-olvm"
echo "olvmctl $version is in $folder"
