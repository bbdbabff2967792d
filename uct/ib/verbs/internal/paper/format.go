//go:build linux

package paper

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// What both halves know.

// ID is the number of the driver, which the kernel has given to nobody.
const ID = 30

var order = binary.BigEndian

// Sizes in bytes, and most of what an entry has.
const (
	block      = 64
	pieceSize  = 16
	maxPieces  = 8
	maxInline  = 128
	maxBlocks  = 3 // of a send: what all have, and two for pieces or inline data
	recvPieces = 3
	answerSize = 32 // of every call: as much as the kernel of verbstest writes
)

// The page of the device: a bell for each queue pair, and one for each completion
// queue, by the low bits of their numbers.
const (
	pageSize  = 4096
	pageAt    = 0x7000_0000 // its offset
	bells     = pageSize / 8 / 2
	rungBell  = 1 << 63
	armNext   = 1 << 62
	armMarked = 1 << 61 // solicited ones
	armSeq    = 3 << 32
)

func qpBell(page []byte, qpn uint32) []byte { return page[8*(qpn%bells):][:8] }
func cqBell(page []byte, cqn uint32) []byte { return page[8*(bells+cqn%bells):][:8] }

// queue is memory of blocks, with a record of two indices behind them: how far the
// program is, and the device. They count blocks and run free.
type queue struct {
	mem []byte
	n   uint32 // blocks, a power of two
}

func (q *queue) at(i uint32) []byte { return q.mem[i%q.n*block:][:block] }
func (q *queue) record() []byte     { return q.mem[q.n*block:] }
func (q *queue) program() uint32    { return order.Uint32(q.record()) }
func (q *queue) device() uint32     { return order.Uint32(q.record()[4:]) }
func (q *queue) setProgram(i uint32) {
	order.PutUint32(q.record(), i)
}
func (q *queue) setDevice(i uint32) { order.PutUint32(q.record()[4:], i) }

// send is what the first block of a send says.
type send struct {
	wr             provider.WR
	pieces, blocks uint8
	inlined        uint32
	ah, qpn, qkey  uint32
}

func (s *send) put(b []byte) {
	b[0], b[1], b[2], b[3] = byte(s.wr.Opcode), byte(s.wr.Flags), s.pieces, s.blocks
	order.PutUint32(b[4:], s.wr.Imm)
	order.PutUint64(b[8:], s.wr.ID)
	order.PutUint64(b[16:], s.wr.RemoteAddr)
	order.PutUint32(b[24:], uint32(s.wr.RKey))
	order.PutUint32(b[28:], s.inlined)
	order.PutUint64(b[32:], s.wr.CompareAdd)
	order.PutUint64(b[40:], s.wr.Swap)
	order.PutUint32(b[48:], s.ah)
	order.PutUint32(b[52:], s.qpn)
	order.PutUint32(b[56:], s.qkey)
}

func (s *send) get(b []byte) {
	s.wr.Opcode, s.wr.Flags, s.pieces, s.blocks = provider.WROpcode(b[0]), provider.SendFlags(b[1]), b[2], b[3]
	s.wr.Imm = order.Uint32(b[4:])
	s.wr.ID = order.Uint64(b[8:])
	s.wr.RemoteAddr = order.Uint64(b[16:])
	s.wr.RKey = provider.RKey(order.Uint32(b[24:]))
	s.inlined = order.Uint32(b[28:])
	s.wr.CompareAdd = order.Uint64(b[32:])
	s.wr.Swap = order.Uint64(b[40:])
	s.ah, s.qpn, s.qkey = order.Uint32(b[48:]), order.Uint32(b[52:]), order.Uint32(b[56:])
}

func putPiece(b []byte, s provider.SGE) {
	order.PutUint64(b, s.Addr)
	order.PutUint32(b[8:], s.Length)
	order.PutUint32(b[12:], uint32(s.LKey))
}

func getPiece(b []byte) provider.SGE {
	return provider.SGE{Addr: order.Uint64(b), Length: order.Uint32(b[8:]), LKey: provider.LKey(order.Uint32(b[12:]))}
}

// owner is what the last byte of a completion is when it is there: it changes with
// each round.
func owner(q *queue, i uint32) byte { return byte(1 + i/q.n&1) }

func putWC(b []byte, w *provider.WC) {
	order.PutUint64(b, w.ID)
	b[8], b[9], b[10] = byte(w.Status), byte(w.Opcode), byte(w.Flags)
	order.PutUint32(b[12:], w.ByteLen)
	order.PutUint32(b[16:], w.Imm|uint32(w.InvalidatedRKey))
	order.PutUint32(b[20:], uint32(w.QPN))
	order.PutUint32(b[24:], uint32(w.SrcQPN))
	order.PutUint32(b[28:], w.VendorErr)
}

func getWC(b []byte, w *provider.WC) {
	*w = provider.WC{ID: order.Uint64(b), Status: provider.WCStatus(b[8]), Opcode: provider.WCOpcode(b[9]), Flags: provider.WCFlags(b[10]),
		ByteLen: order.Uint32(b[12:]), QPN: provider.QPN(order.Uint32(b[20:])), SrcQPN: provider.QPN(order.Uint32(b[24:])),
		VendorErr: order.Uint32(b[28:])}
	switch v := order.Uint32(b[16:]); {
	case w.Flags&provider.WCWithImm != 0:
		w.Imm = v
	case w.Flags&provider.WCWithInv != 0:
		w.InvalidatedRKey = provider.RKey(v)
	}
}
