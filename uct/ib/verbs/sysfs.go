//go:build linux

package verbs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// Functions that read sysfs files, whose format is that of drivers/infiniband/core/sysfs.c of
// Linux. A file in another format is treated as missing.

// list returns the names of a directory's entries, sorted. If there are more than limit, it returns
// only the first limit names that the kernel lists.
func list(dir string, limit int) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(limit)
	if err != nil && err != io.EOF {
		return nil, err
	}
	sort.Strings(names)
	return names, nil
}

// numbers returns, sorted, the numbers below limit that are the names of a directory's entries.
func numbers(dir string, limit int) []int {
	names, _ := list(dir, limit)
	var found []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < limit && strconv.Itoa(n) == name {
			found = append(found, n)
		}
	}
	sort.Ints(found)
	return found
}

// validName reports whether name is a printable word that can be a file name: it is not empty, not "."
// or "..", and has no slash or space.
func validName(name string) bool {
	odd := func(r rune) bool { return r == '/' || !unicode.IsPrint(r) || unicode.IsSpace(r) }
	return name != "" && name != "." && name != ".." && strings.IndexFunc(name, odd) < 0
}

// linkTarget returns the last element of the target of a symbolic link, "" if name is not a link.
func linkTarget(name string) string {
	target, err := os.Readlink(name)
	if err != nil || !validName(filepath.Base(target)) {
		return ""
	}
	return filepath.Base(target)
}

// maxText is the largest size of a sysfs file in bytes: the kernel limits it to a page.
const maxText = 4096

// readText returns the first line of a file, "" if the file cannot be read. One read(2) returns the
// whole contents of a sysfs file; package os would make five system calls in all.
func readText(name string) string {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for err == unix.EINTR {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var b [maxText]byte
	n, err := unix.Read(fd, b[:])
	for err == unix.EINTR {
		n, err = unix.Read(fd, b[:])
	}
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b[:n]), "\n")
	return strings.TrimSpace(line)
}

func readInt(name string) (int, bool) {
	n, err := strconv.Atoi(readText(name))
	return n, err == nil
}

// leadingInt returns the number in a text like "4: ACTIVE", 0 if there is none.
func leadingInt(s string) uint8 {
	num, _, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(num, 10, 8)
	if err != nil {
		return 0
	}
	return uint8(n)
}

// hexInt returns the number in a text like "0xffff", 0 if there is none.
func hexInt(s string) uint16 {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// parseGUID parses a GUID of the form 0000:0000:0000:0000. It returns 0 for other texts.
func parseGUID(s string) GUID {
	groups := strings.Split(s, ":")
	if len(groups) != 4 {
		return 0
	}
	var g GUID
	for _, t := range groups {
		n, err := strconv.ParseUint(t, 16, 16)
		if err != nil || len(t) != 4 {
			return 0
		}
		g = g<<16 | GUID(n)
	}
	return g
}

// parseGID parses a GID of 8 groups of 4 hexadecimal digits.
func parseGID(s string) (g GID, ok bool) {
	groups := strings.Split(s, ":")
	if len(groups) != 8 {
		return g, false
	}
	for i, t := range groups {
		n, err := strconv.ParseUint(t, 16, 16)
		if err != nil || len(t) != 4 {
			return GID{}, false
		}
		g[2*i], g[2*i+1] = byte(n>>8), byte(n)
	}
	return g, true
}

// parseRdev parses a device number, major:minor. It returns 0 for other texts.
func parseRdev(s string) uint64 {
	major, minor, _ := strings.Cut(s, ":")
	a, err1 := strconv.ParseUint(major, 10, 32)
	b, err2 := strconv.ParseUint(minor, 10, 32)
	if err1 != nil || err2 != nil {
		return 0
	}
	return unix.Mkdev(uint32(a), uint32(b))
}

// parseRate returns the rate in Gb/s from a text like "2.5 Gb/sec (1X SDR)", 0 if there is none.
func parseRate(s string) float64 {
	num, _, _ := strings.Cut(s, " ")
	rate, err := strconv.ParseFloat(num, 64)
	if err != nil || !(rate >= 0 && rate <= maxRate) {
		return 0
	}
	return rate
}

// maxRate is the largest rate of a port that parseRate accepts, in Gb/s.
const maxRate = 1e6

// isPCI reports whether s is a PCI address like 0000:81:00.0.
func isPCI(s string) bool {
	var domain, bus, slot, function uint32
	n, err := fmt.Sscanf(s, "%x:%x:%x.%x", &domain, &bus, &slot, &function)
	return err == nil && n == 4 && s == fmt.Sprintf("%04x:%02x:%02x.%x", domain, bus, slot, function)
}

func parseLinkLayer(s string) LinkLayer {
	for l := LinkUnspecified; l <= LinkEthernet; l++ {
		if strings.EqualFold(s, l.String()) {
			return l
		}
	}
	return LinkUnspecified
}
