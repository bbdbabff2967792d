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

// MinRkeySize is the size of a key without domains: a zero MD map.
const MinRkeySize = rkeyHeaderSize

var errRkey error = &FormatError{What: "rkey", Reason: "truncated", Status: ucs.ErrInvalidParam}

// Rkey is a packed remote key (src/ucp/core/ucp_rkey.c): the keys of a piece of memory for
// each of the owner's memory domains. Its byte slices alias the bytes that it was parsed
// from. If a peer changes these, its methods return wrong values but do not read beyond
// them. It is a plain value; copying it is cheap.
type Rkey struct {
	// MDMap has a bit for each of the owner's memory domains that the memory is registered
	// with. If it is 0 the key gives no access and the fields below are empty.
	MDMap   uint64
	MemType uint8 // ucs_memory_type_t; numbers of newer releases may be unknown

	keys []byte // length byte and key for each bit, ascending

	// HasSysDev reports whether the system device is packed: always by 1.20 and later; by
	// older releases only inside rendezvous messages and only if known.
	HasSysDev bool
	SysDev    uint8 // SysDevUnknown, or the device
	Flush     bool  // access needs a remote flush

	distances  []byte // 3 bytes each
	terminated bool   // an 0xFF ends the distances, in keys for applications
}

// RkeyDistance is the distance of the memory from one of the owner's devices.
type RkeyDistance struct {
	SysDev    uint8
	Latency   float64 // seconds
	Bandwidth float64 // bytes per second
}

// ParseRkey reads a packed key from the start of b and returns the number of bytes that it
// takes. A key of a domain may be empty, as 1.13.1 packs that of tcp. After the keys the
// format differs between releases and uses, without a mark; the rest is read as the system
// device, distances and terminator. Errors in these optional parts are not reported. It
// does not allocate.
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

// Add adds the packed key of a memory domain. Domains are added in ascending
// order.
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

// AppendRkeyHeader appends a packed key without domains. AppendRkeyPart adds the keys of
// domains, in ascending order: messages get their keys this way, without a Rkey.
func AppendRkeyHeader(b []byte, memType uint8) []byte {
	return append(le.AppendUint64(b, 0), memType)
}

// AppendRkeyPart begins the key of a domain in the packed key at the start of b[key:]. The
// bytes appended until EndRkeyPart are the domain's key.
func AppendRkeyPart(b []byte, key int, md uint8) []byte {
	le.PutUint64(b[key:], le.Uint64(b[key:])|1<<md)
	return append(b, 0)
}

// EndRkeyPart ends the domain's key that began at b[part]. It reports whether the key is
// short enough.
func EndRkeyPart(b []byte, part int) bool {
	n := len(b) - part
	b[part-1] = byte(n)
	return n <= 0xFF
}

// RkeySize returns the size of a packed key of that many domains, whose keys have bytes
// bytes in total.
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

// cutKey cuts a length byte and a key off b. It reads the length once.
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

// Keys calls yield for each memory domain in ascending order.
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
