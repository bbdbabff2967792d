//go:build linux

package interop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownMemory gives a place with its own namespaces its own shared memory, too.
func (p *place) ownMemory() (err error) {
	if !p.own {
		return errors.New("no namespace of our own")
	}
	p.do(func() {
		if err = unix.Unshare(unix.CLONE_NEWIPC); err != nil {
			err = fmt.Errorf("unshare: %w", err)
			return
		}
		if err = unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, ""); err != nil {
			err = fmt.Errorf("mount of /dev/shm: %w", err)
		}
	})
	return err
}

// apart gives the place its own shared memory if possible, and reports whether it has it.
func (p *place) apart(t *testing.T) bool {
	t.Helper()
	err := p.ownMemory()
	if err != nil {
		t.Logf("looks for leftovers in the machine's shared memory: %v", err)
	}
	return err == nil
}

// sharedMemory lists the shared memory in the place that outlives processes: files and System V
// segments.
func (p *place) sharedMemory(t *testing.T) (list []string) {
	t.Helper()
	var err error
	p.do(func() {
		if list, err = filepath.Glob("/dev/shm/ucx_*"); err != nil {
			return
		}
		var text []byte
		if text, err = os.ReadFile("/proc/sysvipc/shm"); err != nil {
			return
		}
		for i, line := range strings.Split(string(text), "\n") {
			if f := strings.Fields(line); i > 0 && len(f) > 1 {
				list = append(list, "System V segment "+f[1])
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// nothingLeft checks that the place has no more shared memory than before. The kernel may take a
// moment to clean up after a process.
func (p *place) nothingLeft(t *testing.T, before []string) {
	t.Helper()
	var left []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left = slices.DeleteFunc(p.sharedMemory(t), func(s string) bool { return slices.Contains(before, s) })
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("left behind: %v", left)
}

// reclaim starts a process that removes the files of killed processes.
func reclaim(t *testing.T, where *place, ours program) {
	t.Helper()
	p, err := startPeer(where, ours.path, posixFiles.env(true))
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	if err := p.exit(); err != nil {
		t.Error(err)
	}
}
