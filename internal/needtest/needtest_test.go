package needtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// told is a test that records why it was skipped or failed.
type told struct {
	testing.TB
	text string
}

func (t *told) Helper()                           {}
func (t *told) Skip(args ...any)                  { t.end("skip: " + fmt.Sprint(args...)) }
func (t *told) Fatalf(format string, args ...any) { t.end("fatal: " + fmt.Sprintf(format, args...)) }
func (t *told) end(text string)                   { t.text = text; runtime.Goexit() }

func TestMissing(t *testing.T) {
	defer func(s bool, l string, f bool) { set, limits, filtered = s, l, f }(set, limits, filtered)
	const skip, fatal = "skip: missing: it", "fatal: missing although the set-up script has run: it"
	const little, filter = "not root", " (there is a seccomp filter)"
	for _, c := range []struct {
		set               bool
		limits            string
		filtered          bool
		tool, right, call string
	}{
		{false, little, false, skip, skip + " (" + little + ")", skip},
		{false, "", false, skip, skip, skip},
		{true, little, false, fatal, skip + " (" + little + ")", fatal},
		{true, "", false, fatal, fatal, fatal},
		{true, little, true, fatal, skip + " (" + little + ")", skip + filter},
	} {
		set, limits, filtered = c.set, c.limits, c.filtered
		for _, x := range []struct {
			call func(testing.TB, string)
			want string
		}{{Tool, c.tool}, {Right, c.right}, {Call, c.call}} {
			at := new(told)
			done := make(chan struct{})
			go func() {
				defer close(done)
				x.call(at, "it")
			}()
			if <-done; at.text != x.want {
				t.Errorf("set up %v, limits %q, filtered %v: %q, want %q", c.set, c.limits, c.filtered, at.text, x.want)
			}
		}
	}
}

// TestRefused: an error that a seccomp filter may have caused skips the test if there is a filter;
// other errors do not.
func TestRefused(t *testing.T) {
	defer func(s, f bool) { set, filtered = s, f }(set, filtered)
	set = true
	for _, c := range []struct {
		filtered bool
		err      error
		want     string
	}{
		{true, fmt.Errorf("shmget: %w", syscall.EPERM), "skip: missing: shmget: operation not permitted (there is a seccomp filter)"},
		{true, syscall.ENOSYS, "skip: missing: function not implemented (there is a seccomp filter)"},
		{true, syscall.ENOMEM, ""},
		{true, nil, ""},
		{false, syscall.EPERM, ""},
	} {
		filtered = c.filtered
		at := new(told)
		done := make(chan struct{})
		go func() {
			defer close(done)
			Refused(at, c.err)
		}()
		if <-done; at.text != c.want {
			t.Errorf("filtered %v, %v: %q, want %q", c.filtered, c.err, at.text, c.want)
		}
	}
}

// TestUserNamespace: a limit that applies even to root skips the test, although the machine was set
// up.
func TestUserNamespace(t *testing.T) {
	defer func(s bool) { set = s }(set)
	set = true
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("fork/exec it: %w", syscall.EPERM), "skip: missing: a user namespace: not allowed in a chroot or for this user: fork/exec it: operation not permitted"},
		{syscall.ENOSPC, "skip: missing: a user namespace: the system's limit is reached: no space left on device"},
		{syscall.EINVAL, ""},
		{nil, ""},
	} {
		at := new(told)
		done := make(chan struct{})
		go func() {
			defer close(done)
			UserNamespace(at, c.err)
		}()
		if <-done; at.text != c.want {
			t.Errorf("%v: %q, want %q", c.err, at.text, c.want)
		}
	}
}

// TestLimited checks the descriptions of root in docker, and of other users with fewer rights than
// root.
func TestLimited(t *testing.T) {
	const whole, some = "0 0 4294967295\n", "0 1000 1\n"
	const mounted = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
	directory := t.TempDir()
	for _, c := range []struct {
		name        string
		uid         int
		users       string
		set, filter string
		mounts      string
		want        string
	}{
		{"a machine", 0, whole, "000001ffffffffff", "0", mounted, ""},
		{"a machine that keeps CAP_SYS_RESOURCE", 0, whole, "000001fffeffffff", "0", mounted, ""},
		{"a user", 1000, whole, "0000000000000000", "0", mounted, "not root"},
		{"a user namespace", 0, some, "000001ffffffffff", "0", mounted, "root of a user namespace"},
		{"docker", 0, whole, "00000000a80425fb", "2", mounted, "root lacks CAP_NET_ADMIN CAP_IPC_LOCK CAP_IPC_OWNER CAP_SYS_PTRACE CAP_SYS_ADMIN"},
		{"all rights and a filter", 0, whole, "000001ffffffffff", "2", mounted, "root with a seccomp filter"},
		{"a chroot", 0, whole, "000001ffffffffff", "0", "30 20 0:5 / /proc rw - proc proc rw\n", "root in a chroot, where mounts cannot be made private"},
		{"a system without them", 0, whole, "", "", mounted, ""},
	} {
		for name, text := range map[string]string{
			"uid_map":   c.users,
			"mountinfo": c.mounts,
			"status":    "Name:\tit\nCapEff:\t" + c.set + "\nSeccomp:\t" + c.filter + "\nSeccomp_filters:\t1\n",
		} {
			if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := limited(c.uid, directory); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
