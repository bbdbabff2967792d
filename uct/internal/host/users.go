//go:build linux

package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// sectionName names the settings section of all transports within a machine.
const sectionName = "shm"

func init() {
	config.Register(config.Section{
		Name:   sectionName,
		Prefix: "SHM_",
		Title:  "shared memory",
		New:    func() any { return new(settings) },
	})
}

type settings struct {
	Allow Users `ucx:"ALLOW" default:"all" doc:"User ids of processes to communicate with over posix, sysv and cma; self is this process's user, all means any. Memory of other users is not opened; other transports reach their processes. The list must include this process's user. In any case only processes of one user and privileged ones can share memory, and the setting does not keep privileged processes from opening this process's memory."`
}

// Users is the set of users in UCX_SHM_ALLOW. The zero value contains all users.
type Users struct {
	some bool
	self bool
	uids []int
}

// LoadUsers reads UCX_SHM_ALLOW. It returns an error that matches ucs.ErrUnsupported if the set
// lacks the user of this process: only processes of this user can open memory of this process,
// so no peer could communicate.
func LoadUsers(cfg *config.Set) (Users, error) {
	var s settings
	if err := cfg.Load(sectionName, &s); err != nil {
		return Users{}, err
	}
	if !s.Allow.Has(os.Geteuid()) {
		return s.Allow, fmt.Errorf("UCX_SHM_ALLOW=%v does not include the user of this process, %d: add self, or leave shared memory out of UCX_TLS: %w",
			s.Allow, os.Geteuid(), ucs.ErrUnsupported)
	}
	return s.Allow, nil
}

// Has reports whether the set contains a user.
func (u Users) Has(uid int) bool {
	return !u.some || u.self && uid == os.Geteuid() || slices.Contains(u.uids, uid)
}

// Check returns nil if memory of a user may be opened, or an error that matches
// ucs.ErrUnreachable.
func (u Users) Check(uid int) error {
	if u.Has(uid) {
		return nil
	}
	return fmt.Errorf("user %d is not in UCX_SHM_ALLOW=%v: %w", uid, u, ucs.ErrUnreachable)
}

// CheckProcess is like Check, for the user of a process.
func (u Users) CheckProcess(pid int) error {
	if !u.some {
		return nil
	}
	uid, ok := UserOf(pid)
	if !ok {
		return fmt.Errorf("the user of process %d cannot be determined, for UCX_SHM_ALLOW=%v: %w", pid, u, ucs.ErrUnreachable)
	}
	return u.Check(uid)
}

// UserOf returns the user of a process. For this process it returns the effective user id of the
// calling thread, because /proc shows the user of the first thread, which may temporarily have
// another user; for other processes it returns FileUser(pid).
func UserOf(pid int) (uid int, ok bool) {
	if pid == os.Getpid() {
		return os.Geteuid(), true
	}
	return FileUser(pid)
}

// ParseConfig implements config.Value.
func (u *Users) ParseConfig(s string) error {
	*u = Users{some: true}
	for _, word := range strings.Split(s, ",") {
		switch word = strings.ToLower(strings.TrimSpace(word)); word {
		case "all":
			*u = Users{}
			return nil
		case "self":
			u.self = true
		default:
			n, err := strconv.ParseUint(word, 10, 32)
			if err != nil {
				return errors.New("expected a list of user ids, self, or all")
			}
			u.uids = append(u.uids, int(n))
		}
	}
	return nil
}

// String implements config.Value.
func (u Users) String() string {
	if !u.some {
		return "all"
	}
	var words []string
	if u.self {
		words = append(words, "self")
	}
	for _, uid := range u.uids {
		words = append(words, fmt.Sprint(uint32(uid))) // an int of 32 bits may be negative
	}
	return strings.Join(words, ",")
}

// ConfigSyntax implements config.Syntaxer.
func (Users) ConfigSyntax() string { return "all|list of users and self" }
