//go:build linux

package shm

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// The kernel keeps the id of the process that created a segment. Segments outlive processes, so
// that id may belong to another process by now. If that process names the segment, it names memory
// that it did not create. So the segment must have been created by the user of the process, and the
// segment must not be older than the process.

// creationSlack is the time by which a segment may seem older than the process that created it,
// because the kernel keeps whole seconds, and a leap second may lie in between.
const creationSlack = 2 * time.Second

// ticksPerSecond is the number of ticks in a second, the unit of times in /proc (USER_HZ).
const ticksPerSecond = 100

// checkCreator checks that process pid, the segment's creator according to the kernel, can have
// created the segment. If the machine's clock was set forward in the meantime, by more than the age
// of the process when it created the segment, checkCreator returns an error although pid is the
// creator. Another transport is then used.
func checkCreator(id uint64, pid int, d *unix.SysvShmDesc) error {
	p, err := host.Find(pid)
	if err != nil {
		return fmt.Errorf("segment %d of System V: %w", id, err)
	}
	user, ok := host.UserOf(pid)
	if !ok || user != int(d.Perm.Cuid) {
		return fmt.Errorf("segment %d of System V was created by user %d, and process %d belongs to user %d: %w",
			id, d.Perm.Cuid, pid, user, ucs.ErrUnreachable)
	}
	var now, boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return fmt.Errorf("clock_gettime: %w: %w", err, ucs.ErrUnreachable)
	}
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return fmt.Errorf("clock_gettime(CLOCK_BOOTTIME): %w: %w", err, ucs.ErrUnreachable)
	}
	started := time.Unix(now.Unix()).Add(-time.Duration(boot.Nano())).
		Add(time.Duration(p.Start/ticksPerSecond)*time.Second + time.Duration(p.Start%ticksPerSecond)*time.Second/ticksPerSecond)
	if made := time.Unix(int64(d.Ctime), 0); made.Add(creationSlack).Before(started) {
		return fmt.Errorf("segment %d of System V was created %v before process %d started, by an earlier process with that id: %w",
			id, started.Sub(made).Round(time.Second), pid, ucs.ErrUnreachable)
	}
	return nil
}
