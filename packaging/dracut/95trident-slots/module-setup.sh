#!/bin/bash
# Puts the slot loader into an initrd: dracut --add trident-slots.

check() {
	require_binaries trident-slot-loader mount || return 1
	return 0
}

depends() {
	echo systemd
}

installkernel() {
	instmods loop squashfs erofs ext4 overlay
}

install() {
	inst_multiple trident-slot-loader mount umount
	# shellcheck disable=SC2154 # dracut's own
	for unit in trident-slot-loader.service trident-slot-loader-recovery.service; do
		inst_simple "$systemdsystemunitdir/$unit"
	done
	$SYSTEMCTL -q --root "$initdir" enable trident-slot-loader.service
}
