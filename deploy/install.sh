#!/bin/sh
# Installs what `make` has built under $DESTDIR$PREFIX, or removes it: `make install`, `make uninstall`. lib/runnel
# belongs to the installation as a whole. In folders shared with other programs, only Runnel's own files are touched.
set -eu
umask 022
cd "$(dirname "$0")/.."

: "${PREFIX:=/usr/local}" "${SYSCONFDIR:=/etc}" "${DESTDIR:=}" "${BUILD:=build}"
lib=$DESTDIR$PREFIX/lib/runnel
bin=$DESTDIR$PREFIX/bin/runnel
bin_target=../lib/runnel/gateway/runnel.js
units=$DESTDIR$PREFIX/lib/systemd/system
etc=$DESTDIR$SYSCONFDIR/runnel

refuse() {
  echo "install.sh: $*" >&2
  exit 64
}

# Unit files give spaces and percent signs a meaning of their own.
for path in "$PREFIX" "$SYSCONFDIR"; do
  case $path in
    /*[!A-Za-z0-9._/+-]* | [!/]* | '') refuse "PREFIX and SYSCONFDIR must be absolute paths of letters, digits and . _ / + -, got '$path'." ;;
  esac
done
# Existing files must be those of an earlier installation.
[ ! -e "$lib" ] || [ -e "$lib/gateway/runnel.js" ] || refuse "$lib is not Runnel's; move it away."
[ ! -e "$bin" ] && [ ! -L "$bin" ] || [ "$(readlink "$bin")" = "$bin_target" ] || refuse "$bin is another program; move it away."

install_files() {
  # The new files are put beside the old ones and then take their place, so a running gateway finds its files at every
  # moment but one.
  new=$lib.new
  old=$lib.old
  rm -rf "$new" "$old"
  mkdir -p "$new/build" "$new/gateway" "${bin%/*}" "$units" "$etc"
  cp -R docs package.json README.md SECURITY.md CHANGELOG.md LICENSE "$new"
  cp gateway/runnel.js gateway/bundle.js "$new/gateway"
  cp -R "$BUILD/gateway" "$BUILD/cpu-runner" "$BUILD/sd-notify" "$BUILD/LICENSES-runners.txt" "$new/build"
  # The manifest names the sources that the bundle was made of, and an installation has none.
  rm "$new/build/gateway/manifest.json"
  [ ! -e "$BUILD/cuda-runner" ] || cp "$BUILD/cuda-runner" "$new/build"
  mkdir -p "$new/deploy/grafana"
  cp deploy/grafana/runnel.json "$new/deploy/grafana"
  sed "$at_prefix" deploy/runnel-cuda.conf >"$new/deploy/runnel-cuda.conf"
  chmod -R u=rwX,go=rX "$new"
  chmod 755 "$new/gateway/runnel.js"
  [ ! -e "$lib" ] || mv "$lib" "$old"
  mv "$new" "$lib"
  rm -rf "$old"

  ln -sfn "$bin_target" "$bin"
  for unit in runnel.service runnel.socket; do
    sed "$at_prefix" "deploy/$unit" >"$units/$unit"
    chmod 644 "$units/$unit"
  done
  if [ -e "$etc/runnel.json" ]; then
    echo "Kept the configuration $etc/runnel.json"
  else
    install -m 644 deploy/runnel.json "$etc/runnel.json"
  fi
  echo "Installed Runnel $("$bin" --version) under $DESTDIR$PREFIX. With systemd, continue with:"
  echo "  RUNNEL_CACHE=/var/lib/runnel $PREFIX/bin/runnel pull smollm2"
  echo "  systemctl daemon-reload && systemctl enable --now runnel.socket runnel.service"
  case $PREFIX in
    /usr | /usr/local) ;;
    *) echo "systemd does not look into $units; link its units with: systemctl link $PREFIX/lib/systemd/system/runnel.*" ;;
  esac
}

at_prefix="s|/usr/local/|$PREFIX/|g; s|/etc/runnel/|$SYSCONFDIR/runnel/|g"

uninstall_files() {
  rm -rf "$lib"
  rm -f "$bin" "$units/runnel.service" "$units/runnel.socket"
  echo "Removed Runnel from $DESTDIR$PREFIX."
  echo "Kept, for you to remove: the configuration in $etc, models and state in /var/lib/runnel."
}

case ${1:-} in
  install) install_files ;;
  uninstall) uninstall_files ;;
  *) refuse "the argument must be install or uninstall, got '${1:-}'." ;;
esac
