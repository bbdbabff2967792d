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

// pidBits is the number of bits for the process id in an ID. The remaining bits, for the start
// time, suffice for a thousand years at a hundred ticks a second.
const pidBits = 22

// ID packs the process id and the start time into a uct.Process.
func (p Process) ID() uct.Process {
	return uct.Process(p.Start<<pidBits | uint64(p.PID)&(1<<pidBits-1))
}

// OfID is the inverse of Process.ID.
func OfID(id uct.Process) Process {
	return Process{PID: int(id & (1<<pidBits - 1)), Start: uint64(id) >> pidBits}
}

// OpenFile is the kernel's information about a descriptor of a process (/proc/PID/fdinfo/FD in
// proc_pid_fdinfo(5)). Mount and Inode are 0 if the kernel does not report them, as before
// 5.14.
type OpenFile struct {
	Flags        int
	Mount, Inode uint64
}

// Writable reports whether the process may read and write the file through this descriptor.
func (f OpenFile) Writable() bool {
	return f.Flags&unix.O_PATH == 0 && f.Flags&unix.O_ACCMODE == unix.O_RDWR
}

// FileOf returns information about a descriptor of a process.
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
			break // the line may be truncated within a number
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

// maxMaps bounds the bytes read from /proc/PID/maps.
const maxMaps = 64 << 20

// Maps reports whether a process has mapped a file as shared and writable. Device and inode are
// those of stat(2); for files in tmpfs the kernel shows the same numbers in /proc/PID/maps.
func Maps(pid int, dev, inode uint64) (bool, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return false, err
	}
	defer f.Close()
	return findMapping(f, dev, inode)
}

// findMapping reads lines of the form
//
//	7f0d20000000-7f0d20021000 rw-s 00000000 00:1a 1234    /dev/shm/name
func findMapping(from io.Reader, dev, inode uint64) (bool, error) {
	var buf [16 << 10]byte
	want := fmt.Sprintf("%02x:%02x %d", unix.Major(dev), unix.Minor(dev), inode)
	have, total, cut := 0, 0, false // cut: the beginning of the current line was discarded
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
		if len(rest) == len(buf) { // a long file name, which is not needed
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

// FileUser returns the file-system user id of a process, the owner of files that the process
// creates.
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
