//go:build linux

package ucptest

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// TestRkeysOfC checks that keys packed by C UCX with any transports can be unpacked on an endpoint
// over tcp, which skips the parts for other transports.
func TestRkeysOfC(t *testing.T) {
	r := newRig(t, byName(t, "tcp"))
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	f, err := os.Open("../../testdata/wire/rkeys.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var origin string
	count := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if name == "##" {
			origin = text
		}
		if !strings.HasPrefix(name, "rkey_") {
			continue
		}
		packed, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		count++
		// Applications keep keys in larger buffers.
		for _, behind := range [][]byte{nil, bytes.Repeat([]byte{0xFF}, 20)} {
			k, err := ep.UnpackRkey(append(bytes.Clone(packed), behind...))
			if err != nil {
				t.Errorf("%s, %s: %v", origin, name, err)
				continue
			}
			if got := k.String(); !strings.HasPrefix(got, "put messages, from 11562 tcp/lo zcopy; get messages;") {
				t.Errorf("%s, %s: %s", origin, name, got)
			}
			k.Close()
		}
	}
	if count < 40 {
		t.Errorf("%d keys", count)
	}
}

// TestRkeyBytes checks the bytes of packed keys. Over tcp they are those of 1.22.0, which 1.13.1
// reads as well. Over self, whose keys no other process reads, the key contains the number of the
// registration.
func TestRkeyBytes(t *testing.T) {
	for name, want := range map[string]string{
		"tcp":  "000000000000000000",
		"self": "010000000000000000" + "08",
	} {
		ctx := openContext(t, byName(t, name))
		for _, p := range []ucp.MemMapParams{{Buffer: make([]byte, 8192)}, {Length: 8192, Flags: ucp.MemMapAllocate}} {
			m, err := ctx.MemMap(p)
			if err != nil {
				t.Fatal(err)
			}
			key, err := m.PackRkey()
			if name == "self" && len(key) == 18 {
				key = key[:10]
			}
			if err != nil || hex.EncodeToString(key) != want {
				t.Errorf("%s: %x, %v, want %s", name, key, err, want)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestOneSidedExplained checks that an endpoint explains how it writes, reads and executes atomic
// operations: for the keys that it has, or else for a key that gives access over every lane.
func TestOneSidedExplained(t *testing.T) {
	r := newRig(t, byName(t, "posix and cma"))
	a, b := r.oneSidedPair()
	ep := a.connect(b)
	says := func(want bool, parts ...string) {
		t.Helper()
		text := ep.Explain().String()
		for _, p := range parts {
			if strings.Contains(text, p) != want {
				t.Errorf("%q: %v, want %v, in\n%s", p, !want, want, text)
			}
		}
	}
	titles := []string{
		"remote memory write by ucp_put* from host memory to host:",
		"remote memory read by ucp_get* into host memory from host:",
		"atomic operation by ucp_atomic_op* on 32 bits of host:",
		"atomic operation by ucp_atomic_op* on 64 bits of host:",
	}
	says(true, titles...)
	says(true, "put/offload/short on posix/memory", "amo on posix/memory")

	// Posix accesses allocated memory only; messages and cma access any memory.
	heap := r.unpack(ep, b.expose(make([]byte, 8192), 0))
	says(true, titles...)
	says(true, "put/am/bcopy on posix/memory", "get/zcopy on cma/memory", "amo/sw on posix/memory")
	says(false, "put/offload/short on posix/memory")
	m, err := b.ctx.MemMap(ucp.MemMapParams{Length: 8192, Flags: ucp.MemMapAllocate})
	if err != nil {
		t.Fatal(err)
	}
	b.unmap = append(b.unmap, m)
	r.unpack(ep, m)
	says(true, "put/am/bcopy on posix/memory", "put/offload/short on posix/memory")
	heap.key.Close()
	says(false, "put/am/bcopy on posix/memory, ")

	var info strings.Builder
	if err := ep.WriteInfo(&info); err != nil || !strings.Contains(info.String(), "remote memory write by ucp_put*") {
		t.Errorf("%v\n%s", err, info.String())
	}
	ep = r.open().connect(b) // without one-sided operations
	says(false, "ucp_put*", "ucp_get*", "ucp_atomic_op*")
}
