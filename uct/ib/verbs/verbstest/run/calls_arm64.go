//go:build linux

package run

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var legacyCalls map[uint32]call
