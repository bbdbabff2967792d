package proto

import (
	"bytes"
	"errors"
	"math/bits"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

func recodeRkey(b []byte) ([]byte, error) {
	k, n, err := ParseRkey(b)
	if err == nil && n != k.Size() {
		return nil, errors.New("size differs from the bytes read")
	}
	return append(k.Append(nil), b[n:]...), err
}

func TestRkeyGolden(t *testing.T) {
	checkGolden(t, "rkeys.txt", map[string]recode{"rkey_allocated": recodeRkey, "rkey_registered": recodeRkey})
	for _, g := range readGolden(t, "rkeys.txt") {
		k, n, err := ParseRkey(g.bytes)
		if err != nil || n != len(g.bytes) {
			t.Errorf("%s: %d of %d bytes, %v", g.origin, n, len(g.bytes), err)
		}
		// 1.20 and later always pack the system device of a key that gives access to memory.
		if want := strings.Contains(g.origin, "1.22.0") && k.MDMap != 0; k.HasSysDev != want {
			t.Errorf("%s: %x: system device %v, want %v", g.origin, g.bytes, k.HasSysDev, want)
		}
	}
}

func TestRkeyKeys(t *testing.T) {
	var k Rkey
	var n int
	for _, g := range readGolden(t, "rkeys.txt", "rkey_allocated") {
		if g.origin == "release 1.13.1 UCX_TLS=self,posix,sysv,cma,tcp UCX_NET_DEVICES=all UCX_ADDRESS_VERSION=v1" {
			k, n, _ = ParseRkey(g.bytes)
		}
	}
	if n == 0 || k.MDMap != 0x17 {
		t.Fatalf("key %+v", k)
	}
	for md, want := range map[uint8]int{0: 0, 1: 0, 2: 12, 3: -1, 4: 0, 64: -1, 255: -1} {
		got := -1
		if key, ok := k.Key(md); ok {
			got = len(key)
		}
		if got != want {
			t.Errorf("domain %d: %d bytes, want %d", md, got, want)
		}
	}
	var mds []uint8
	for md, key := range k.Keys {
		if one, _ := k.Key(md); !bytes.Equal(one, key) {
			t.Errorf("domain %d: %x and %x", md, one, key)
		}
		mds = append(mds, md)
		if md == 2 {
			break
		}
	}
	if !bytes.Equal(mds, []byte{0, 1, 2}) {
		t.Errorf("domains %v", mds)
	}
}

func TestRkeyBuild(t *testing.T) {
	k := NewRkey(0)
	if !bytes.Equal(k.Append(nil), make([]byte, MinRkeySize)) {
		t.Errorf("empty key %x", k.Append(nil))
	}
	if err := k.Add(1, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := k.Add(63, []byte("last")); err != nil {
		t.Fatal(err)
	}
	for md, key := range map[uint8][]byte{0: nil, 1: nil, 64: nil} {
		if err := k.Add(md, key); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("domain %d: %v", md, err)
		}
	}
	long := NewRkey(0)
	if err := long.Add(0, make([]byte, 256)); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("long key: %v", err)
	}
	b := k.Append(nil)
	got, n, err := ParseRkey(b)
	if err != nil || n != len(b) || got.MDMap != 1<<1|1<<63 || got.HasSysDev {
		t.Fatalf("%+v, %d, %v", got, n, err)
	}
	if key, _ := got.Key(63); string(key) != "last" {
		t.Errorf("domain 63: %q", key)
	}
	for n := range b {
		if _, _, err := ParseRkey(b[:n:n]); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
}

// TestRkeyDistances parses what 1.22.0 appends for memory near a device: flush bit, two distances,
// end mark.
func TestRkeyDistances(t *testing.T) {
	b := append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0}, 0x83, 5, 0x01, 0x01, 6, 0x5A, 0x26, 0xFF, 'x')
	k, n, err := ParseRkey(b)
	if err != nil || n != len(b)-1 || k.SysDev != 3 || !k.Flush {
		t.Fatalf("%+v, %d, %v", k, n, err)
	}
	var got []RkeyDistance
	for d := range k.Distances {
		got = append(got, d)
	}
	want := []RkeyDistance{{5, 16 / nsecPerSec, 512 << 20}, {6, 10752 / nsecPerSec, 19327352832}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("distances %+v", got)
	}
	if out := k.Append(nil); !bytes.Equal(out, b[:n]) {
		t.Errorf("%x from %x", out, b[:n])
	}
}

func TestRkeyNoAllocs(t *testing.T) {
	g := readGolden(t, "rkeys.txt", "rkey_allocated")[0]
	buf := make([]byte, 0, 64)
	checkNoAllocs(t, "rkey", func() {
		k, _, _ := ParseRkey(g.bytes)
		for range k.Keys {
		}
		buf = k.Append(buf[:0])
		_, _, _ = ParseRkey(g.bytes[:3])
	})
}

func FuzzRkey(f *testing.F) {
	seed(f, "rkeys.txt")
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		checkExact(t, b, recodeRkey)
		k, _, err := ParseRkey(b)
		if err != nil {
			return
		}
		n := 0
		for md, key := range k.Keys {
			if one, ok := k.Key(md); !ok || !bytes.Equal(one, key) {
				t.Errorf("domain %d: %x and %x", md, one, key)
			}
			n++
		}
		if n != bits.OnesCount64(k.MDMap) {
			t.Errorf("%d keys in map %#x", n, k.MDMap)
		}
		for d := range k.Distances {
			_ = d
		}
	})
}

// TestRkeyChanged changes the bytes that a key was parsed from, as a peer can if the message is in
// shared memory, and checks that the key's methods stay within bounds.
func TestRkeyChanged(t *testing.T) {
	k := NewRkey(0)
	for md := range uint8(3) {
		if err := k.Add(md, []byte{1, 2, 3, 4}); err != nil {
			t.Fatal(err)
		}
	}
	for at := range 3 {
		for _, n := range []byte{0, 3, 5, 9, 14, 255} {
			b := k.Append(nil)
			got, _, err := ParseRkey(b)
			if err != nil {
				t.Fatal(err)
			}
			b[rkeyHeaderSize+5*at] = n
			for md := range uint8(4) {
				if key, ok := got.Key(md); len(key) > len(b) || !ok && key != nil {
					t.Errorf("key of %d bytes, %v", len(key), ok)
				}
			}
			for _, key := range got.Keys {
				if len(key) > len(b) {
					t.Errorf("key of %d bytes", len(key))
				}
			}
		}
	}
}
