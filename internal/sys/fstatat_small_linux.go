//go:build 386 || arm

package sys

import "golang.org/x/sys/unix"

const fstatat = unix.SYS_FSTATAT64 // the variant whose Stat_t has 64-bit sizes
