# Trims a fresh root file system for the lab. $1 is its directory.
set -eu
root="$1"

# The log must survive a reboot: it is read from outside, over several boots.
mkdir -p "$root/var/log/journal"

# mmdebstrap copies these from the machine it runs on; each node gets its own.
rm -f "$root/etc/hostname" "$root/etc/resolv.conf"
: > "$root/etc/machine-id"

# Nothing here is wanted in a node that lives for seconds.
for unit in \
    getty.target console-getty.service getty@.service serial-getty@.service \
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer \
    e2scrub_all.timer e2scrub_reap.service systemd-tmpfiles-clean.timer \
    systemd-hwdb-update.service systemd-journal-catalog-update.service \
    ldconfig.service systemd-firstboot.service \
    systemd-update-utmp.service systemd-update-utmp-runlevel.service
do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

# Far in the future, so that no ConditionNeedsUpdate= unit runs.
for place in etc var; do
    printf 'TIMESTAMP_NSEC=4102444800000000000\n' > "$root/$place/.updated"
done

rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* \
    "$root/usr/share/doc" "$root/usr/share/man" "$root/usr/share/locale"
