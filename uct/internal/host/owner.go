//go:build linux

package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// pidBits is the room for a process's number in an ID. That for its start lasts
// for a thousand years at a hundred ticks in a second.
const pidBits = 22

// ID is the process as other packages know it.
func (p Process) ID() uct.Process {
	return uct.Process(p.Start<<pidBits | uint64(p.PID)&(1<<pidBits-1))
}

// OfID is the process with an ID.
func OfID(id uct.Process) Process {
	return Process{PID: int(id & (1<<pidBits - 1)), Start: uint64(id) >> pidBits}
}

// OpenFile is what the kernel tells of a descriptor of a process
// (/proc/PID/fdinfo/FD in proc_pid_fdinfo(5)). Mount and inode are 0 where it
// does not tell, before 5.14.
type OpenFile struct {
	Flags        int
	Mount, Inode uint64
}

// Writable reports whether the process may read and write the file by this
// descriptor.
func (f OpenFile) Writable() bool {
	return f.Flags&unix.O_PATH == 0 && f.Flags&unix.O_ACCMODE == unix.O_RDWR
}

// FileOf looks at a descriptor of a process.
func FileOf(pid, fd int) (OpenFile, error) {
	var path [48]byte
	b := append(strconv.AppendInt(append(path[:0], "/proc/"...), int64(pid), 10), "/fdinfo/"...)
	b = append(strconv.AppendInt(b, int64(fd), 10), 0)
	var text [256]byte
	n, e := readFile(b, text[:])
	if e != 0 {
		return OpenFile{}, fmt.Errorf("%s: %w", b[:len(b)-1], sys.WithLimit(e))
	}
	return parseFdinfo(string(text[:n]))
}

func parseFdinfo(text string) (f OpenFile, err error) {
	found := false
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if !strings.HasSuffix(value, "\n") {
			break // it may be half a number
		}
		value = strings.TrimSpace(value)
		var e error
		switch name {
		case "flags":
			var n uint64
			n, e = strconv.ParseUint(value, 8, 32)
			f.Flags, found = int(n), true
		case "mnt_id":
			f.Mount, e = strconv.ParseUint(value, 10, 64)
		case "ino":
			f.Inode, e = strconv.ParseUint(value, 10, 64)
		}
		if e != nil {
			return OpenFile{}, fmt.Errorf("fdinfo: %s is %q: %w", name, value, ucs.ErrIO)
		}
	}
	if !found {
		return OpenFile{}, fmt.Errorf("fdinfo without flags: %w", ucs.ErrIO)
	}
	return f, nil
}

// maxMaps bounds what is read of a process's mappings.
const maxMaps = 64 << 20

// Maps reports whether a process has mapped a file, shared and writable. Device
// and inode are those of stat(2), which are what the kernel shows there for files
// in tmpfs.
func Maps(pid int, dev, inode uint64) (bool, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return false, err
	}
	defer f.Close()
	return findMapping(f, dev, inode)
}

// findMapping reads lines as
//
//	7f0d20000000-7f0d20021000 rw-s 00000000 00:1a 1234    /dev/shm/name
func findMapping(from io.Reader, dev, inode uint64) (bool, error) {
	var buf [16 << 10]byte
	want := fmt.Sprintf("%02x:%02x %d", unix.Major(dev), unix.Minor(dev), inode)
	have, total, cut := 0, 0, false // the line begins with what was thrown away
	for total < maxMaps {
		n, err := from.Read(buf[have:])
		have += n
		total += n
		rest := buf[:have]
		for {
			line, after, whole := bytes.Cut(rest, []byte{'\n'})
			if !whole {
				break
			}
			if !cut && isMapping(line, want) {
				return true, nil
			}
			rest, cut = after, false
		}
		if len(rest) == len(buf) { // a long name: nothing of it matters
			if !cut && isMapping(rest, want) {
				return true, nil
			}
			rest, cut = nil, true
		}
		have = copy(buf[:], rest)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

func isMapping(line []byte, want string) bool {
	_, rest, _ := bytes.Cut(line, []byte{' '})
	mode, rest, _ := bytes.Cut(rest, []byte{' '})
	_, rest, _ = bytes.Cut(rest, []byte{' '}) // offset
	file, ok := bytes.CutPrefix(rest, []byte(want))
	return ok && (len(file) == 0 || file[0] == ' ') && len(mode) == 4 && mode[1] == 'w' && mode[3] == 's'
}

// FileUser returns the user that files belong to which a process makes.
func FileUser(pid int) (int, bool) {
	text, err := sys.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "Uid:"); is {
			var users [4]int // real, effective, saved, of files
			n, _ := fmt.Sscan(rest, &users[0], &users[1], &users[2], &users[3])
			return users[3], n == len(users)
		}
	}
	return 0, false
}
