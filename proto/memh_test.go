package proto

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

// exportedMemory packs a handle as ucp_memh_exported_pack does. No memory domain of the available
// machines can export, so there is no captured handle.
func exportedMemory(extra int, keys ...ExportedKey) []byte {
	info := le.AppendUint16(nil, memhFlagExported)
	info = le.AppendUint64(info, 1<<len(keys)-1)
	info = append(info, 1)
	for i := range uint64(4) {
		info = le.AppendUint64(info, 0x1000+i)
	}
	part := func(b, p []byte) []byte {
		if len(p) > 0xFF {
			return append(le.AppendUint16(append(b, 0), uint16(len(p))), p...)
		}
		return append(append(b, byte(len(p))), p...)
	}
	b := part(nil, append(info, make([]byte, extra)...))
	for _, k := range keys {
		p := append([]byte{byte(len(k.Key))}, k.Key...)
		p = append(append(p, byte(len(k.GlobalID))), k.GlobalID...)
		b = part(b, append(p, make([]byte, extra)...))
	}
	return b
}

func TestExportedMemory(t *testing.T) {
	keys := []ExportedKey{{[]byte("one"), []byte("id")}, {bytes.Repeat([]byte{7}, 255), []byte("other")}}
	want := ExportedMemory{MDMap: 3, MemType: 1, Address: 0x1000, Length: 0x1001, ContextUUID: 0x1002, RegistrationID: 0x1003, Keys: keys}
	for _, extra := range []int{0, 10, 300} { // fields of a newer release, which are skipped
		b := exportedMemory(extra, keys...)
		got, n, err := ParseExportedMemory(append(b, "behind"...))
		if err != nil || n != len(b) {
			t.Fatalf("%d of %d bytes, %v", n, len(b), err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
		for n := range b {
			if _, _, err := ParseExportedMemory(b[:n:n]); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Fatalf("%d of %d bytes: %v", n, len(b), err)
			}
		}
	}
	if again := want.Append(nil); !bytes.Equal(again, exportedMemory(0, keys...)) {
		t.Errorf("packed again: %x", again)
	}
	if b := (ExportedMemory{}).Append(nil); !bytes.Equal(b, []byte{0, 0, 0}) {
		t.Errorf("empty region packed: %x", b)
	}
	if m, n, err := ParseExportedMemory([]byte{0, 0, 0}); err != nil || n != 3 || m.MDMap != 0 {
		t.Errorf("empty region: %+v, %d, %v", m, n, err)
	}
	plain := exportedMemory(0)
	plain[1] = 0
	if _, _, err := ParseExportedMemory(plain); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("not exported: %v", err)
	}
}

func FuzzExportedMemory(f *testing.F) {
	f.Add(exportedMemory(0, ExportedKey{[]byte("key"), []byte("id")}))
	f.Add([]byte{0, 0, 0})
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		m, n, err := ParseExportedMemory(b)
		if err == nil && (n > len(b) || len(m.Keys) > MaxMDs) {
			t.Errorf("%d of %d bytes, %d keys", n, len(b), len(m.Keys))
		}
	})
}
