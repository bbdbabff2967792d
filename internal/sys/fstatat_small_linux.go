//go:build 386 || arm

package sys

import "golang.org/x/sys/unix"

const fstatat = unix.SYS_FSTATAT64 // the one that fills a Stat_t of 64 bits' sizes
