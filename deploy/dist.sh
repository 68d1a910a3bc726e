#!/bin/sh
# `make dist`: packs what `make` has built into an archive and a Debian package, which run without sources and npm
# packages. Both contain what install.sh installs. ARCHITECTURE: of the runners in BUILD, by Debian's name; by default this
# machine's. The same build gives the same bytes: file times are that of the last
# commit, or SOURCE_DATE_EPOCH.
set -eu
umask 022
cd "$(dirname "$0")/.."

: "${BUILD:=build}"
: "${DIST:=$BUILD/dist}"
# Variables of dpkg-deb.
export DPKG_DEB_COMPRESSOR_TYPE="${DPKG_DEB_COMPRESSOR_TYPE:-xz}" DPKG_DEB_COMPRESSOR_LEVEL="${DPKG_DEB_COMPRESSOR_LEVEL:-2}"

refuse() {
  echo "dist.sh: $*" >&2
  exit 64
}

for program in dpkg-deb dpkg-shlibdeps; do
  command -v $program >/dev/null || refuse "$program is missing: apt-get install dpkg-dev"
done
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || refuse "without git, set SOURCE_DATE_EPOCH, in seconds since 1970."
fi
export SOURCE_DATE_EPOCH

of_package_json() {
  node -p "JSON.parse(fs.readFileSync('package.json', 'utf8')).$1"
}
version=$(of_package_json version)
# dpkg-shlibdeps reads its architecture from this variable.
export DEB_HOST_ARCH="${ARCHITECTURE:-$(dpkg --print-architecture)}"
architecture=$DEB_HOST_ARCH

mkdir -p "$DIST"
DIST=$(realpath "$DIST")
work=$(mktemp -d "$DIST/work-XXXXXX")
trap 'rm -rf "$work"' EXIT

make_archive() {
  name=runnel-$version-linux-$architecture
  PREFIX=/usr/local DESTDIR=$work/tree BUILD=$BUILD deploy/install.sh install >"$work/log" || { cat "$work/log" >&2; exit 1; }
  mkdir "$work/$name"
  # Units and configuration have fixed paths. They come with the package, or by make install.
  mv "$work/tree/usr/local/bin" "$work/tree/usr/local/lib" "$work/$name"
  rm -r "$work/$name/lib/systemd"
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=posix \
    --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime -C "$work" -cf "$work/archive.tar" "$name"
  gzip -6 -n "$work/archive.tar"
  mv "$work/archive.tar.gz" "$DIST/$name.tar.gz"
  echo "$DIST/$name.tar.gz"
}

make_package() {
  root=$work/package
  PREFIX=/usr DESTDIR=$root BUILD=$BUILD deploy/install.sh install >"$work/log" || { cat "$work/log" >&2; exit 1; }
  lib=$root/usr/lib/runnel
  doc=$root/usr/share/doc/runnel
  mkdir -p "$root/DEBIAN" "$doc"
  { cat LICENSE
    echo
    echo "Licences of the packages in the gateway's bundle and in the runners:"
    echo "  /usr/lib/runnel/build/gateway/LICENSES.txt, /usr/lib/runnel/build/LICENSES-runners.txt"; } >"$doc/copyright"
  gzip -9 -n -c CHANGELOG.md >"$doc/changelog.gz"

  depends=$(libraries "$lib"/build/*-runner "$lib/build/sd-notify")
  echo /etc/runnel/runnel.json >"$root/DEBIAN/conffiles"
  for script in postinst prerm postrm; do
    install -m 755 "deploy/debian/$script" "$root/DEBIAN/$script"
  done
  sed "s|@VERSION@|$version|; s|@ARCHITECTURE@|$architecture|; s|@SIZE@|$(du -sk --apparent-size "$root" | cut -f1)|
       s|@LIBRARIES@|$depends|
       s|@DESCRIPTION@|$(of_package_json description)|" deploy/debian/control >"$root/DEBIAN/control"
  (cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  chmod -R u=rwX,go=rX "$root"
  package=$DIST/runnel_${version}_$architecture.deb
  dpkg-deb --root-owner-group --build "$root" "$work/package.deb" >"$work/log" || { cat "$work/log" >&2; exit 1; }
  mv "$work/package.deb" "$package"
  echo "$package"
}

# The packages of the shared libraries that these programs need, as a list for Depends.
libraries() {
  mkdir -p "$work/shlibs/debian"
  printf 'Source: runnel\n\nPackage: runnel\nArchitecture: any\n' >"$work/shlibs/debian/control"
  (cd "$work/shlibs" && dpkg-shlibdeps -O "$@") >"$work/libraries"
  sed 's/^shlibs:Depends=//' "$work/libraries"
}

make_archive
make_package
