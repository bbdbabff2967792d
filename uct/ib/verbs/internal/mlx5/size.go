//go:build linux

package mlx5

import (
	"fmt"
	"math/bits"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// Sizes are computed as rdma-core's providers/mlx5/verbs.c does (mlx5_calc_send_wqe,
// mlx5_calc_sq_size, mlx5_calc_rq_size), so that programs find the same room.

const (
	blockSize = abi.MLX5_SEND_WQE_BB
	unit      = 16 // bytes of a segment
	cqeSize   = 64
	avSize    = 48
	// connectedFixed is what the longest operation has besides data: a bind, with control
	// segment, UMR control segment, key and a padded KLM.
	connectedFixed = unit + 48 + 64 + 64
	datagramFixed  = unit + avSize
	inlineHeader   = 4
	maxUnits       = 63 // of an entry, whose length has 6 bits
	maxCQE         = 1 << 24
)

// limits are what a device takes; struct mlx5_ib_alloc_ucontext_resp.
type limits struct {
	sendEntry, recvEntry int // bytes
	sendBlocks           int
	recvWR, srqWR        int
}

// layout is what a queue pair's memory is: receives in front, sends behind them.
type layout struct {
	blocks uint32 // of the send queue, a power of two or 0
	posts  uint32 // sends in it
	inline int    // bytes in a send
	pieces int    // in a send

	receives   uint32 // a power of two or 0
	recvShift  uint32 // log2 of the bytes of one
	recvPieces int
}

func (l *layout) recvBytes() int { return int(l.receives) << l.recvShift }
func (l *layout) sendBytes() int { return int(l.blocks) * blockSize }
func (l *layout) bytes() int     { return l.recvBytes() + l.sendBytes() }

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// powerOf2 is the power of two from n on.
func powerOf2(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

func log2(n int) uint32 { return uint32(bits.Len(uint(n)) - 1) }

// tooMuch is the error of what a device does not take.
func tooMuch(what string, asked, most int) error {
	return fmt.Errorf("verbs: mlx5: %d %s, at most %d: %w", asked, what, most, ucs.ErrInvalidParam)
}

// layOut says what a queue pair that is asked for takes.
func (m *limits) layOut(a *provider.QPInit) (l layout, err error) {
	if err = m.layOutSends(a, &l); err == nil && a.SRQ == nil && a.Cap.MaxRecvWR > 0 {
		err = m.layOutReceives(a, &l)
	}
	return l, err
}

func (m *limits) layOutSends(a *provider.QPInit, l *layout) error {
	if a.Cap.MaxSendWR == 0 {
		return nil
	}
	fixed := connectedFixed
	if a.Type == provider.UD {
		fixed = datagramFixed
	}
	longest := min(m.sendEntry, maxUnits*unit)
	if most := (longest - fixed) / unit; a.Cap.MaxSendSGE > most {
		return tooMuch("pieces of memory in a send", a.Cap.MaxSendSGE, most)
	}
	if most := longest - fixed - inlineHeader; a.Cap.MaxInline > most {
		return tooMuch("bytes inline in a send", a.Cap.MaxInline, most)
	}
	entry := fixed + unit*a.Cap.MaxSendSGE
	if a.Cap.MaxInline > 0 {
		entry = max(entry, fixed+roundUp(inlineHeader+a.Cap.MaxInline, unit))
	}
	entry = roundUp(entry, blockSize)
	most := m.sendBlocks * blockSize / entry
	if a.Cap.MaxSendWR > most {
		return tooMuch("sends of this length in a queue", a.Cap.MaxSendWR, most)
	}
	bytes := powerOf2(a.Cap.MaxSendWR * entry)
	if bytes > m.sendBlocks*blockSize {
		return tooMuch("blocks in a send queue", bytes/blockSize, m.sendBlocks)
	}
	l.blocks, l.posts = uint32(bytes/blockSize), uint32(bytes/entry)
	l.inline, l.pieces = max(entry-fixed-inlineHeader, 0), a.Cap.MaxSendSGE
	return nil
}

func (m *limits) layOutReceives(a *provider.QPInit, l *layout) error {
	if a.Cap.MaxRecvWR > m.recvWR {
		return tooMuch("receives in a queue", a.Cap.MaxRecvWR, m.recvWR)
	}
	if most := m.recvEntry / unit; a.Cap.MaxRecvSGE > most {
		return tooMuch("pieces of memory in a receive", a.Cap.MaxRecvSGE, most)
	}
	entry := powerOf2(unit * max(a.Cap.MaxRecvSGE, 1))
	l.receives = uint32(max(powerOf2(a.Cap.MaxRecvWR)*entry, blockSize) / entry)
	l.recvShift, l.recvPieces = log2(entry), entry/unit
	return nil
}

// shared is what a shared receive queue's memory is.
type shared struct {
	entries uint32 // a power of two; one is always kept
	shift   uint32
	pieces  int
}

// layOutShared is without the second half that rdma-core has for paging on demand
// (providers/mlx5/srq.c, mlx5_alloc_srq_buf).
func (m *limits) layOutShared(a *provider.SRQInit) (s shared, err error) {
	if most := min(m.srqWR, 1<<16-1); a.MaxWR > most {
		return s, tooMuch("receives in a shared queue", a.MaxWR, most)
	}
	if most := m.recvEntry/unit - 1; a.MaxSGE > most {
		return s, tooMuch("pieces of memory in a shared receive", a.MaxSGE, most)
	}
	entry := powerOf2(max(unit+unit*a.MaxSGE, 2*unit))
	return shared{uint32(powerOf2(a.MaxWR + 1)), log2(entry), entry/unit - 1}, nil
}

// completions is how many entries a queue for cqe completions has.
func completions(cqe int) (uint32, error) {
	if cqe < 1 || cqe >= maxCQE {
		return 0, tooMuch("completions in a queue", cqe, maxCQE-1)
	}
	return uint32(powerOf2(cqe + 1)), nil
}
