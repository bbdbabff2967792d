package proto

import (
	"math/bits"

	"github.com/ucx-go/ucx/ucs"
)

const (
	rkeyHeaderSize = 9

	// rkeyFlushBit in the system device says that access needs a flush at the
	// remote side (UCP_SYS_DEVICE_FLUSH_BIT).
	rkeyFlushBit = 0x80

	rkeyDistanceSize = 3
)

// MinRkeySize is the size in bytes of a key without memory domains, whose MD map is 0.
const MinRkeySize = rkeyHeaderSize

var errRkey error = &FormatError{What: "rkey", Reason: "truncated", Status: ucs.ErrInvalidParam}

// Rkey is a packed remote key (src/ucp/core/ucp_rkey.c): the keys of a piece of memory for
// each of the owner's memory domains. Its byte slices alias the bytes that it was parsed
// from. If a peer changes these bytes, the methods return wrong values but do not read beyond
// them. An Rkey is a plain value; copying it is cheap.
type Rkey struct {
	// MDMap has a bit for each of the owner's memory domains that the memory is registered
	// with. If it is 0 the key gives no access and the fields below are empty.
	MDMap   uint64
	MemType uint8 // ucs_memory_type_t; numbers of newer releases may be unknown

	keys []byte // a length byte and the key for each bit of MDMap, ascending

	// HasSysDev reports whether the system device is packed: always by 1.20 and later; by
	// older releases only inside rendezvous messages and only if known.
	HasSysDev bool
	SysDev    uint8 // number of the system device at the owner, or SysDevUnknown
	Flush     bool  // access needs a flush at the remote side

	distances  []byte // packed distances of 3 bytes each
	terminated bool   // a byte 0xFF ends the distances, as in keys that applications exchange
}

// RkeyDistance is the distance of the memory from one of the owner's devices.
type RkeyDistance struct {
	SysDev    uint8
	Latency   float64 // seconds
	Bandwidth float64 // bytes per second
}

// ParseRkey reads a packed key from the start of b and returns the number of bytes that it
// takes. A key of a domain may be empty; 1.13.1 packs an empty key for tcp. After the keys the
// format differs between releases and uses, without an indication in the bytes; the rest is read
// as the system device, distances and terminator. Errors in these optional parts are not
// reported. ParseRkey does not allocate.
func ParseRkey(b []byte) (k Rkey, n int, err error) {
	if len(b) < rkeyHeaderSize {
		return k, 0, errRkey
	}
	k.MDMap = le.Uint64(b)
	k.MemType = b[8]
	k.SysDev = SysDevUnknown
	at := rkeyHeaderSize
	if k.MDMap == 0 {
		return k, at, nil
	}
	for range bits.OnesCount64(k.MDMap) {
		_, rest, ok := cutKey(b[at:])
		if !ok {
			return Rkey{}, 0, errRkey
		}
		at = len(b) - len(rest)
	}
	k.keys = b[rkeyHeaderSize:at:at]
	if at == len(b) {
		return k, at, nil
	}

	k.HasSysDev = true
	k.SysDev = b[at]
	at++
	if k.SysDev == SysDevUnknown {
		return k, at, nil
	}
	k.Flush = k.SysDev&rkeyFlushBit != 0
	k.SysDev &^= rkeyFlushBit
	first := at
	for len(b)-at >= rkeyDistanceSize && b[at] != SysDevUnknown {
		at += rkeyDistanceSize
	}
	k.distances = b[first:at:at]
	if at < len(b) && b[at] == SysDevUnknown {
		k.terminated = true
		at++
	}
	return k, at, nil
}

// NewRkey returns a key for memory of a type, with no domain yet.
func NewRkey(memType uint8) Rkey { return Rkey{MemType: memType, SysDev: SysDevUnknown} }

// Add adds the packed key of a memory domain. Domains are added in ascending order. Another order
// and a key above 255 bytes are errors.
func (k *Rkey) Add(md uint8, key []byte) error {
	if md >= MaxMDs || k.MDMap>>md != 0 {
		return formatErrorf(ucs.ErrInvalidParam, "rkey", "memory domain %d out of order", md)
	}
	if len(key) > 0xFF {
		return formatErrorf(ucs.ErrInvalidParam, "rkey", "key of %d bytes, limit 255", len(key))
	}
	k.MDMap |= 1 << md
	k.keys = append(append(k.keys, byte(len(key))), key...)
	return nil
}

// AppendRkeyHeader appends a packed remote key without domains. AppendRkeyPart then adds the keys
// of domains, in ascending order. In this way a key is packed into a message without an Rkey value.
func AppendRkeyHeader(b []byte, memType uint8) []byte {
	return append(le.AppendUint64(b, 0), memType)
}

// AppendRkeyPart begins the key of a domain in the packed key at the start of b[key:]. The
// bytes appended until EndRkeyPart are the domain's key.
func AppendRkeyPart(b []byte, key int, md uint8) []byte {
	le.PutUint64(b[key:], le.Uint64(b[key:])|1<<md)
	return append(b, 0)
}

// EndRkeyPart ends the domain's key that began at b[part]. It returns false if the key is longer
// than 255 bytes.
func EndRkeyPart(b []byte, part int) bool {
	n := len(b) - part
	b[part-1] = byte(n)
	return n <= 0xFF
}

// RkeySize returns the size of a packed remote key in bytes. The parameter domains is the number of
// memory domains, and the parameter bytes is the total size of their keys.
func RkeySize(domains, bytes int) int { return rkeyHeaderSize + domains + bytes }

// Append appends the packed key. A key that was parsed is reproduced; one built
// by NewRkey and Add has a system device only if HasSysDev was set.
func (k *Rkey) Append(b []byte) []byte {
	b = append(le.AppendUint64(b, k.MDMap), k.MemType)
	if k.MDMap == 0 {
		return b
	}
	b = append(b, k.keys...)
	if !k.HasSysDev {
		return b
	}
	if k.SysDev == SysDevUnknown {
		return append(b, SysDevUnknown)
	}
	dev := k.SysDev
	if k.Flush {
		dev |= rkeyFlushBit
	}
	b = append(append(b, dev), k.distances...)
	if k.terminated {
		b = append(b, SysDevUnknown)
	}
	return b
}

// Size returns the length that Append adds.
func (k *Rkey) Size() int {
	n := rkeyHeaderSize
	if k.MDMap == 0 {
		return n
	}
	n += len(k.keys)
	if k.HasSysDev {
		n += 1 + len(k.distances)
		if k.terminated {
			n++
		}
	}
	return n
}

// Key returns the packed key of one of the owner's memory domains, possibly
// empty; ok is false if the memory is not registered there.
func (k *Rkey) Key(md uint8) (key []byte, ok bool) {
	if md >= MaxMDs || k.MDMap&(1<<md) == 0 {
		return nil, false
	}
	b := k.keys
	for range bits.OnesCount64(k.MDMap & (1<<md - 1)) {
		if _, b, ok = cutKey(b); !ok {
			return nil, false
		}
	}
	key, _, ok = cutKey(b)
	return key, ok
}

// cutKey cuts a length byte and a key off b. It reads the length only once, because a peer may
// change it.
func cutKey(b []byte) (key, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	if n > len(b) {
		return nil, nil, false
	}
	return b[1:n:n], b[n:], true
}

// Keys calls yield for each memory domain in ascending order, with the domain's packed key.
func (k *Rkey) Keys(yield func(md uint8, key []byte) bool) {
	b := k.keys
	for m := k.MDMap; m != 0; m &= m - 1 {
		key, rest, ok := cutKey(b)
		if !ok || !yield(uint8(bits.TrailingZeros64(m)), key) {
			return
		}
		b = rest
	}
}

// Distances calls yield for each packed distance.
func (k *Rkey) Distances(yield func(RkeyDistance) bool) {
	for b := k.distances; len(b) >= rkeyDistanceSize; b = b[rkeyDistanceSize:] {
		d := RkeyDistance{
			SysDev:    b[0],
			Latency:   fp8Latency.unpack(b[1]) / nsecPerSec,
			Bandwidth: fp8Bandwidth.unpack(b[2]),
		}
		if !yield(d) {
			return
		}
	}
}

// ExportedMemory is a memory handle packed for another process to import (ucp_memh_pack
// with UCP_MEMH_PACK_FLAG_EXPORT, src/ucp/core/ucp_rkey.c). No memory domain of this library can
// export or import memory; the handle is parsed so that it can be recognized and skipped.
type ExportedMemory struct {
	MDMap          uint64 // bit map of the exporter's memory domains that have a key
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
	GlobalID []byte // global id of the memory domain, without trailing zeros
}

// memhFlagExported marks a handle that was packed for export.
const memhFlagExported = 1 << 0

func memhError(reason string) error {
	return &FormatError{What: "exported memory", Reason: reason, Status: ucs.ErrInvalidParam}
}

// ParseExportedMemory reads a packed handle and returns the number of bytes that it takes. Each
// part of the handle starts with its size, so additions of newer releases are skipped. The handle
// of an empty region, three zero bytes, gives a zero value. Byte slices in the result alias b.
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
			return ExportedMemory{}, 0, memhError("key shorter than the lengths in it")
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

// appendSized appends a part after its length, in the format that reader.sized reads.
func appendSized(b, part []byte) []byte {
	if len(part) > 0xFF {
		return append(le.AppendUint16(append(b, 0), uint16(len(part))), part...)
	}
	return append(append(b, byte(len(part))), part...)
}

// sized reads a part that starts with its length: one byte, or a zero byte and two bytes with the
// length if it does not fit into one. ok is false if the part is truncated.
func (r *reader) sized() (part reader, ok bool) {
	n := int(r.u8())
	if n == 0 {
		n = int(r.u16())
	}
	part.b = r.take(n)
	return part, !r.short
}
