//go:build !386 && !arm

package sys

import "golang.org/x/sys/unix"

const fstatat = unix.SYS_NEWFSTATAT
