//go:build linux

package host

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

func TestID(t *testing.T) {
	for _, p := range []Process{{1, 1}, {MaxPID - 1, 0}, {MaxPID - 1, 1<<42 - 1}, {4711, 123456789}} {
		if got := OfID(p.ID()); got != p {
			t.Errorf("%+v became %+v", p, got)
		}
	}
	self, err := Self()
	if err != nil || self.ID() == 0 || !OfID(self.ID()).Alive() {
		t.Errorf("this process: %+v, %v", self, err)
	}
}

func TestFileOf(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := FileOf(os.Getpid(), int(f.Fd()))
	if err != nil || !got.Writable() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := FileOf(os.Getpid(), 1<<20); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no file: %v", err)
	}
}

func TestParseFdinfo(t *testing.T) {
	for text, want := range map[string]OpenFile{
		"pos:\t0\nflags:\t0100002\nmnt_id:\t24\nino:\t3\n":              {unix.O_RDWR | 0o100000, 24, 3},
		"pos:\t0\nflags:\t02\n":                                         {unix.O_RDWR, 0, 0},
		"flags:\t02\nmnt_id:\t2":                                        {unix.O_RDWR, 0, 0}, // cut off
		"flags:\t012100000\nmnt_id:\t24\nino:\t3\neventfd-count: x\n\n": {0o12100000, 24, 3},
	} {
		if got, err := parseFdinfo(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "pos:\t0\n", "flags:\t9\n", "flags:\t02", "flags:\t02\nino:\t-1\n", "flags:\n"} {
		if got, err := parseFdinfo(text); !errors.Is(err, ucs.ErrIO) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if (OpenFile{Flags: unix.O_PATH | unix.O_RDWR}).Writable() || (OpenFile{Flags: unix.O_WRONLY}).Writable() {
		t.Error("writable")
	}
}

func TestFindMapping(t *testing.T) {
	dev := unix.Mkdev(0, 0x1a)
	const line = "7f0d20000000-7f0d20021000 rw-s 00000000 00:1a 1234                       /dev/shm/name\n"
	long := "7f0d20000000-7f0d20021000 rw-p 00000000 00:1a 9 " + strings.Repeat("x", 40<<10) + "\n"
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"it":           {line, true},
		"no name":      {"1-2 rw-s 0 00:1a 1234 \n", true},
		"private":      {strings.Replace(line, "rw-s", "rw-p", 1), false},
		"read only":    {strings.Replace(line, "rw-s", "r--s", 1), false},
		"device":       {strings.Replace(line, "00:1a", "00:1b", 1), false},
		"inode":        {strings.Replace(line, "1234", "12345", 1), false},
		"in the name":  {"1-2 rw-s 0 00:1b 5 " + line, false},
		"behind":       {long + line, true},
		"in long name": {strings.TrimSuffix(long, "\n") + line, false},
		"cut":          {strings.TrimSuffix(line, "\n"), false},
		"nothing":      {"", false},
	} {
		for _, step := range []bool{false, true} {
			from := strings.NewReader(c.text)
			got, err := findMapping(from, dev, 1234)
			if step {
				got, err = findMapping(iotest.OneByteReader(strings.NewReader(c.text)), dev, 1234)
			}
			if got != c.want || err != nil {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := findMapping(iotest.ErrReader(broken), dev, 1); err != broken {
		t.Errorf("got %v", err)
	}
}

func TestFileUser(t *testing.T) {
	if u, ok := FileUser(os.Getpid()); !ok || u != os.Geteuid() {
		t.Errorf("%d, %v", u, ok)
	}
	if _, ok := FileUser(MaxPID); ok {
		t.Error("a user of no process")
	}
}
