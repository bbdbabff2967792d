package proto

import (
	"math/bits"

	"github.com/ucx-go/ucx/ucs"
)

// ExportedMemory is a memory handle packed for another process to import (ucp_memh_pack
// with UCP_MEMH_PACK_FLAG_EXPORT, src/ucp/core/ucp_rkey.c). It needs memory domains that
// can export and import, which no domain of this library can; it is parsed so that it can
// be recognized and skipped.
type ExportedMemory struct {
	MDMap          uint64 // the exporter's memory domains
	MemType        uint8
	Address        uint64
	Length         uint64
	ContextUUID    uint64
	RegistrationID uint64
	Keys           []ExportedKey // one per bit of MDMap, ascending
}

// ExportedKey is the key of one memory domain.
type ExportedKey struct {
	Key      []byte
	GlobalID []byte // of the domain, trailing zeros left out
}

// memhFlagExported marks a handle that was packed for export.
const memhFlagExported = 1 << 0

func memhError(reason string) error {
	return &FormatError{What: "exported memory", Reason: reason, Status: ucs.ErrInvalidParam}
}

// ParseExportedMemory reads a packed handle and returns the number of bytes that it takes.
// Parts contain their sizes, so additions of newer releases are skipped. The handle of an
// empty region, three zero bytes, gives a zero value. Byte slices in the result alias b.
func ParseExportedMemory(b []byte) (m ExportedMemory, n int, err error) {
	all := reader{b: b}
	info, ok := all.sized()
	if !ok {
		return m, 0, memhError("truncated")
	}
	if info.rest() == 0 {
		return m, all.off, nil
	}
	flags := info.u16()
	m.MDMap = info.u64()
	m.MemType = info.u8()
	m.Address = info.u64()
	m.Length = info.u64()
	m.ContextUUID = info.u64()
	m.RegistrationID = info.u64()
	if info.short {
		return ExportedMemory{}, 0, memhError("shorter than its header")
	}
	if flags&memhFlagExported == 0 {
		return ExportedMemory{}, 0, memhError("not packed for export")
	}
	for range bits.OnesCount64(m.MDMap) {
		part, ok := all.sized()
		if !ok {
			return ExportedMemory{}, 0, memhError("truncated")
		}
		var k ExportedKey
		k.Key = part.take(int(part.u8()))
		k.GlobalID = part.take(int(part.u8()))
		if part.short {
			return ExportedMemory{}, 0, memhError("key shorter than its sizes")
		}
		m.Keys = append(m.Keys, k)
	}
	return m, all.off, nil
}

// Append appends the packed handle; the zero value packs as an empty region. There must be
// a key of at most 255 bytes, with a global id of at most 255 bytes, for each bit of MDMap.
func (m ExportedMemory) Append(b []byte) []byte {
	if m.MDMap == 0 && m.Length == 0 {
		return append(b, 0, 0, 0)
	}
	info := le.AppendUint16(nil, memhFlagExported)
	info = append(le.AppendUint64(info, m.MDMap), m.MemType)
	for _, v := range []uint64{m.Address, m.Length, m.ContextUUID, m.RegistrationID} {
		info = le.AppendUint64(info, v)
	}
	b = appendSized(b, info)
	for _, k := range m.Keys {
		part := append([]byte{byte(len(k.Key))}, k.Key...)
		b = appendSized(b, append(append(part, byte(len(k.GlobalID))), k.GlobalID...))
	}
	return b
}

// appendSized is the inverse of sized.
func appendSized(b, part []byte) []byte {
	if len(part) > 0xFF {
		return append(le.AppendUint16(append(b, 0), uint16(len(part))), part...)
	}
	return append(append(b, byte(len(part))), part...)
}

// sized returns a part that starts with the number of bytes that follow: one
// byte, or a zero byte and two more where the number does not fit.
func (r *reader) sized() (part reader, ok bool) {
	n := int(r.u8())
	if n == 0 {
		n = int(r.u16())
	}
	part.b = r.take(n)
	return part, !r.short
}
