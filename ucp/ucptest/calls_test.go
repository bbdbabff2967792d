//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
)

// kernelCalls are system calls of transports that some seccomp filters refuse.
var kernelCalls = map[string]func() error{
	"cma":  sync.OnceValue(readSelf),
	"sysv": sync.OnceValue(getSegment),
}

// needCalls skips the test if a filter refuses a system call of one of its transports.
func needCalls(t testing.TB, transports ...string) {
	t.Helper()
	for _, name := range transports {
		if try := kernelCalls[name]; try != nil {
			needtest.Refused(t, try())
		}
	}
}

// refusesCall reports whether a filter refuses one of these calls.
func refusesCall() bool {
	for _, try := range kernelCalls {
		if err := try(); errors.Is(err, fs.ErrPermission) {
			return true
		}
	}
	return false
}

// within is the byte that readSelf reads. A package variable does not move.
var within = make([]byte, 1)

func readSelf() error {
	to := make([]byte, 1)
	local := []unix.Iovec{{Base: &to[0]}}
	local[0].SetLen(1)
	remote := []unix.RemoteIovec{{Base: uintptr(addressOf(within)), Len: 1}}
	if _, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0); err != nil {
		return fmt.Errorf("process_vm_readv: %w", err)
	}
	return nil
}

func getSegment() error {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, os.Getpagesize(), unix.IPC_CREAT|0o600)
	if err != nil {
		return fmt.Errorf("shmget: %w", err)
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return err
}
