package insn

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSegments(t *testing.T) {
	const maps = `00400000-0047d000 r-xp 00000000 fe:00 1234                               /tmp/loop
0047d000-00523000 r--p 0007d000 fe:00 1234                               /tmp/loop
7ffff7dd5000-7ffff7f2a000 r-xp 00026000 fe:00 99                         /lib/libc.so.6
7ffff7fa0000-7ffff7fa1000 r-xp 00000000 00:00 0
7ffff7fc5000-7ffff7fc7000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`
	want := []segment{
		{0x400000, 0x47d000, 0, "/tmp/loop"},
		{0x7ffff7dd5000, 0x7ffff7f2a000, 0x26000, "/lib/libc.so.6"},
		{0x7ffff7fc5000, 0x7ffff7fc7000, 0, "[vdso]"},
	}
	if diff := cmp.Diff(want, segments(maps), cmp.AllowUnexported(segment{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFind(t *testing.T) {
	s := segment{start: 0x1000, end: 0x2000, path: "/lib/libx.so.1"}
	m := s.fill(image{
		{"late", 0x1800, 0x1900},
		{"early", 0x1100, 0x1180},
		{"alias", 0x1100, 0x1180},
		{"long", 0x1200, 0x1900},
		{"sizeless", 0x1900, 0x1900},
		{"next", 0x1950, 0x1960},
	})
	for addr, want := range map[uint64]string{
		0x0fff: "?", 0x1000: "[libx.so.1]", 0x10ff: "[libx.so.1]", 0x1100: "early", 0x117f: "early", 0x1180: "[libx.so.1]",
		0x1200: "long", 0x17ff: "long", 0x1800: "late", 0x18ff: "late", 0x1900: "sizeless", 0x194f: "sizeless", 0x1950: "next",
		0x1960: "[libx.so.1]", 0x1fff: "[libx.so.1]", 0x2000: "?",
	} {
		if got := m.find(addr).name; got != want {
			t.Errorf("%#x: %s, want %s", addr, got, want)
		}
	}
	if got := image(nil).find(1); got != nowhere {
		t.Errorf("%v in nothing", got)
	}
}
