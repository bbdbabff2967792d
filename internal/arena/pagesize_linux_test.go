package arena

import "testing"

const smaps = `7f0000000000-7f0000200000 rw-p 00000000 00:00 0
Size:               2048 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
VmFlags: rd wr mr mw me ac sd
7f0000200000-7f0000600000 rw-s 00000000 00:0f 12   /anon_hugepage (deleted)
Size:               4096 kB
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
7f0000600000-7f0000800000 rw-p 00000000 00:00 0
KernelPageSize:  nonsense kB
`

func TestPageSizes(t *testing.T) {
	for _, c := range []struct {
		from, to          uint64
		smallest, largest int
	}{
		{0x7f0000000000, 0x7f0000001000, 4 << 10, 4 << 10},
		{0x7f0000200000, 0x7f0000600000, 2 << 20, 2 << 20},
		{0x7f00001ff000, 0x7f0000201000, 4 << 10, 2 << 20},
		{0x7f0000600000, 0x7f0000700000, 0, 0},
		{0x1000, 0x2000, 0, 0},
	} {
		if s, l := pageSizes([]byte(smaps), c.from, c.to); s != c.smallest || l != c.largest {
			t.Errorf("%#x to %#x: %d and %d, want %d and %d", c.from, c.to, s, l, c.smallest, c.largest)
		}
	}
	b, err := Map(3*PageSize, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(b)
	for _, b := range [][]byte{b, nil} {
		if s, l := PageSizes(b); s != PageSize || l != PageSize {
			t.Errorf("%d bytes: %d and %d", len(b), s, l)
		}
	}
}
