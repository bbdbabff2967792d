//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// The TCP messages of the two sides; perftest_communication.c. Each message has a fixed length, and
// the client sends first.

const (
	versionLen = 16 // MAX_VERSION
	numberLen  = 4
	mtuLen     = 2
	reportLen  = 8

	// oldestVersion is the oldest compatible version; older releases exchange other messages.
	oldestVersion = 5.70
)

// appendVersion appends a version as text that is padded with zeros.
func appendVersion(b []byte, v string) []byte {
	var text [versionLen]byte
	copy(text[:versionLen-1], v)
	return append(b, text[:]...)
}

// parseVersion reads the version of a peer, and checks that it is compatible.
func parseVersion(b []byte) (float64, error) {
	text, _, _ := bytes.Cut(b, []byte{0})
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v >= oldestVersion) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("the peer has version %q, need %.2f: %w", text, oldestVersion, ucs.ErrUnsupported)
	}
	return v, nil
}

// appendNumber appends a size on which both sides must agree.
func appendNumber(b []byte, n int) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

// parseNumber reads a size, which must be a power of two up to most.
func parseNumber(what string, b []byte, most int) (int, error) {
	n := binary.BigEndian.Uint32(b)
	if n == 0 || n&(n-1) != 0 || int64(n) > int64(most) {
		return 0, fmt.Errorf("the peer's %s is %d, not a power of two up to %d: %w", what, n, most, ucs.ErrInvalidParam)
	}
	return int(n), nil
}

// appendMTU appends an MTU as text.
func appendMTU(b []byte, m verbs.MTU) []byte { return append(b, '0'+byte(m), 0) }

func parseMTU(b []byte) (verbs.MTU, error) {
	m := verbs.MTU(b[0] - '0')
	if m.Bytes() == 0 || b[1] != 0 {
		return 0, fmt.Errorf("the peer's MTU is %q: %w", b, ucs.ErrInvalidParam)
	}
	return m, nil
}

// keys are the address of the queue pair and the memory of one side; struct pingpong_dest,
// perftest_resources.h.
type keys struct {
	lid      verbs.LID
	outReads uint16 // reads and atomics that this side accepts at once
	qpn      verbs.QPN
	psn      verbs.PSN
	rkey     verbs.RKey
	addr     uint64
	gid      verbs.GID
	srqn     uint32 // number of a shared receive queue; only for XRC and DC
}

// Lengths of an encoded address in bytes, with and without a GID; KEY_MSG_SIZE_GID, KEY_MSG_SIZE.
const (
	keysGIDLen = 108
	keysLen    = 59
)

// keysSize returns the length of an encoded address in bytes.
func keysSize(gid bool) int {
	if gid {
		return keysGIDLen
	}
	return keysLen
}

// append appends the address as text, in the format KEY_PRINT_FMT_GID or KEY_PRINT_FMT with a zero
// byte at the end.
func (k *keys) append(b []byte, gid bool) []byte {
	b = fmt.Appendf(b, "%04x:%04x:%06x:%06x:%08x:%016x:", uint16(k.lid), k.outReads, uint32(k.qpn), uint32(k.psn), uint32(k.rkey), k.addr)
	if !gid {
		return fmt.Appendf(b, "%08x\x00", k.srqn)
	}
	for _, g := range k.gid {
		b = fmt.Appendf(b, "%02x:", g)
	}
	return fmt.Appendf(b, "%08x:\x00", k.srqn)
}

// parseKeys decodes an address with or without a GID.
func parseKeys(b []byte, gid bool) (keys, error) {
	f := fields{b: b}
	k := keys{lid: verbs.LID(f.hex(4)), outReads: uint16(f.hex(4)), qpn: verbs.QPN(f.hex(6)), psn: verbs.PSN(f.hex(6)),
		rkey: verbs.RKey(f.hex(8)), addr: f.hex(16)}
	if gid {
		for i := range k.gid {
			k.gid[i] = byte(f.hex(2))
		}
	}
	k.srqn = uint32(f.hex(8))
	// With a GID, a zero follows the colon after the last field.
	if f.bad || gid && (len(f.b) != 1 || f.b[0] != 0) || !gid && len(f.b) != 0 {
		return keys{}, fmt.Errorf("the peer's address is %q: %w", b, ucs.ErrInvalidParam)
	}
	return k, nil
}

// fields reads hexadecimal numbers of fixed lengths from text.
type fields struct {
	b   []byte
	bad bool
}

// hex reads a number of n hexadecimal digits and the colon or zero byte after it. If the text is
// malformed, it sets f.bad and returns 0.
func (f *fields) hex(n int) uint64 {
	if f.bad || len(f.b) <= n || f.b[n] != ':' && (f.b[n] != 0 || len(f.b) != n+1) {
		f.bad = true
		return 0
	}
	var v uint64
	for _, c := range f.b[:n] {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			f.bad = true
		}
	}
	f.b = f.b[n+1:]
	return v
}

// report is the result of a bandwidth test; struct bw_report_data, perftest_parameters.h. Each
// field is sent as a message of its own.
type report struct {
	size    uint64
	iters   uint64
	peak    float64 // peak bandwidth in MiB/s
	average float64 // average bandwidth in MiB/s
	rate    float64 // million messages per second
}

const reportFields = 5

// field returns field i as 8 bytes, big endian.
func (r *report) field(i int) []byte {
	v := [reportFields]uint64{r.size, r.iters, math.Float64bits(r.peak), math.Float64bits(r.average), math.Float64bits(r.rate)}
	return binary.BigEndian.AppendUint64(nil, v[i])
}

// setField sets field i from its 8 bytes.
func (r *report) setField(i int, b []byte) {
	v := binary.BigEndian.Uint64(b)
	switch i {
	case 0:
		r.size = v
	case 1:
		r.iters = v
	case 2:
		r.peak = math.Float64frombits(v)
	case 3:
		r.average = math.Float64frombits(v)
	case 4:
		r.rate = math.Float64frombits(v)
	}
}

// doneMessage is the last TCP message of a test. The C programs do not read it.
var doneMessage = []byte("done\x00")
