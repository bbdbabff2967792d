//go:build linux

package memory

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

// FuzzKey checks that an unpacked remote key contains the two keys that were packed, whatever they
// are.
func FuzzKey(f *testing.F) {
	f.Add([]byte{0x34, 0x12, 0, 0, 0xff, 0xff, 0xff, 0xff}) // as of 1.13.1
	f.Add([]byte{0x34, 0x12, 0, 0, 0x34, 0x12, 0, 0})       // and 1.22.0
	f.Add([]byte{})
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		d := new(Space)
		key, err := d.UnpackRkey(b)
		if err != nil {
			if len(b) == 8 || !errors.Is(err, ucs.ErrInvalidParam) {
				t.Fatalf("%x: %v", b, err)
			}
			return
		}
		second, ok := AtomicKey(key)
		if ok == (second == 0xffffffff) {
			t.Errorf("%x: %#x, %v", b, second, ok)
		}
		again := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(DirectKey(key))), uint32(second))
		if !bytes.Equal(again, b) {
			t.Errorf("%x becomes %x", b, again)
		}
	})
}
