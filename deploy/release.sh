#!/usr/bin/env bash
# Builds a release of the commit that is checked out: packages, chart, image, notes, checksums.
#
#   make release ARGS='--no-image'
#   deploy/release.sh [--output DIR] [--no-image] [--source URL] [--platforms PATTERN]
#
# Needs git, helm, and Python with the packages build, setuptools and ziglang; for the image Docker with
# buildx and a builder that can export attestations (`docker buildx create --use`). `PYTHON` names the
# Python. Without --platforms there is a wheel of the service for each platform below.
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/.."
umask 022

# Targets of the compiler, and platforms of wheels. torch has wheels for these, and not for others.
targets="x86_64-linux-gnu.2.28 manylinux_2_28_x86_64
aarch64-linux-gnu.2.28 manylinux_2_28_aarch64
aarch64-macos.11.0 macosx_11_0_arm64
x86_64-windows-gnu win_amd64"

fail() {
  echo "no release: $*" >&2
  exit 1
}

output=dist image=yes source_url= platforms='*'
while [ $# -gt 0 ]; do
  case $1 in
    --output) output=${2:?--output needs a folder} && shift 2 ;;
    --source) source_url=${2:?--source needs a URL} && shift 2 ;;
    --no-image) image=no && shift ;;
    --platforms) platforms=${2:?--platforms needs a pattern} && shift 2 ;;
    *) fail "unknown option $1: use --output DIR, --no-image, --source URL or --platforms PATTERN" ;;
  esac
done

[[ $output = /* ]] || output=$caller/$output
changed=$(git status --porcelain | cut -c4- | sed -n 1,3p | paste -sd ' ' -)
[ -z "$changed" ] || fail "not committed: $changed; commit it, or put it aside with git stash"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
revision=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8
notes=$(awk -v heading="[$version]" '/^## / {inside = ($2 == heading); next} inside' CHANGELOG.md)
[ -n "${notes//[[:space:]]/}" ] ||
  fail "CHANGELOG.md has no text under '## [$version]', the version in pyproject.toml"
if [ -n "$(ls -A "$output" 2>/dev/null)" ] && [ ! -f "$output/SHA256SUMS" ]; then
  fail "$output holds other files than a release: choose another folder with --output"
fi
if [ $image = yes ] && ! docker buildx inspect >/dev/null 2>&1; then
  fail "docker buildx does not answer: start Docker, or leave the image out with --no-image"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree made=$work/made
mkdir "$tree" "$made"
# The files of the commit, with its time; the checkpoints go only into the image.
git archive "$revision" . ':!checkpoints' | tar -x -C "$tree"

pack() {
  "${PYTHON:-python3}" -m build --no-isolation --outdir "$made" "$@" </dev/null >"$work/log" 2>&1 ||
    fail "python -m build: $(tail -1 "$work/log")"
}
pack --sdist "$tree"
while read -r target platform; do
  # shellcheck disable=SC2053 # a pattern
  [[ $platform == $platforms ]] || continue
  HEADLIGHT_TARGET=$target HEADLIGHT_PLATFORM=$platform pack --wheel "$tree"
  rm -r "$tree/build"  # with this platform's library
done <<<"$targets"
pack --wheel "$tree/client"
helm package --app-version "$version" --destination "$made" "$tree/deploy/helm/headlight" >/dev/null
# Archives are packed again, so that the same commit gives the same bytes.
for archive in "$made"/*.tar.gz "$made"/*.tgz; do
  mkdir "$work/unpacked"
  tar -x -C "$work/unpacked" -f "$archive"
  (cd "$work/unpacked" && tar -c --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
    --numeric-owner --mode=u+rw,go=rX --format=ustar -- *) | gzip -n >"$archive"
  rm -r "$work/unpacked"
done

if [ $image = yes ]; then
  # SBOM and provenance are attestations in the image's index; `docker buildx imagetools` reads them.
  docker buildx build --sbom=true --provenance=mode=max --tag "headlight:$version" \
    --build-arg VERSION="$version" --build-arg REVISION="$revision" --build-arg SOURCE="$source_url" \
    --build-arg CREATED="$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" \
    --build-arg SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" \
    --output "type=oci,dest=$made/headlight-$version-image.tar" .
fi
printf '# Headlight %s\n\n%s\n' "$version" "$notes" >"$made/NOTES.md"
(cd "$made" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)

mkdir -p "$(dirname "$output")"
rm -rf "$output"
cp -r "$made" "$output"
echo "$version of ${revision:0:12} in $output:"
cat "$output/SHA256SUMS"
