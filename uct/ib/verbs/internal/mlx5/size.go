//go:build linux

package mlx5

import (
	"fmt"
	"math/bits"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// Sizes are computed as rdma-core's providers/mlx5/verbs.c does (mlx5_calc_send_wqe,
// mlx5_calc_sq_size, mlx5_calc_rq_size), so that programs get queues of the same capacity.

const (
	blockSize = abi.MLX5_SEND_WQE_BB
	unit      = 16 // bytes of a segment
	cqeSize   = 64
	avSize    = 48
	// connectedFixed is the size in bytes of the longest operation without data: a bind, with
	// control segment, UMR control segment, memory key and a padded KLM.
	connectedFixed = unit + 48 + 64 + 64
	datagramFixed  = unit + avSize
	inlineHeader   = 4
	maxUnits       = 63 // units of an entry, whose length has 6 bits
	maxCQE         = 1 << 24
)

// limits are the limits of a device; struct mlx5_ib_alloc_ucontext_resp.
type limits struct {
	sendEntry, recvEntry int // bytes of the largest send and receive entry
	sendBlocks           int // blocks of a send queue
	recvWR, srqWR        int // requests in a receive queue and in a shared receive queue
}

// layout is the layout of a queue pair's memory: the receive queue, then the send queue.
type layout struct {
	blocks uint32 // number of blocks of the send queue, a power of two or 0
	posts  uint32 // number of sends that fit into the send queue
	inline int    // largest number of bytes of inline data in a send
	pieces int    // largest number of scatter/gather elements in a send

	receives   uint32 // number of entries of the receive queue, a power of two or 0
	recvShift  uint32 // log2 of the bytes of a receive entry
	recvPieces int    // largest number of scatter/gather elements in a receive
}

func (l *layout) recvBytes() int { return int(l.receives) << l.recvShift }
func (l *layout) sendBytes() int { return int(l.blocks) * blockSize }
func (l *layout) bytes() int     { return l.recvBytes() + l.sendBytes() }

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// powerOf2 returns the smallest power of two that is at least n.
func powerOf2(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

func log2(n int) uint32 { return uint32(bits.Len(uint(n)) - 1) }

// limitError returns the error for a requested size that exceeds a limit of the device. what names the
// quantity, asked is the requested number, and most is the limit.
func limitError(what string, asked, most int) error {
	return fmt.Errorf("verbs: mlx5: %d %s, at most %d: %w", asked, what, most, ucs.ErrInvalidParam)
}

// layOut returns the layout of a queue pair's memory, or an error if the device does not support
// the size.
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
		return limitError("pieces of memory in a send", a.Cap.MaxSendSGE, most)
	}
	if most := longest - fixed - inlineHeader; a.Cap.MaxInline > most {
		return limitError("bytes inline in a send", a.Cap.MaxInline, most)
	}
	entry := fixed + unit*a.Cap.MaxSendSGE
	if a.Cap.MaxInline > 0 {
		entry = max(entry, fixed+roundUp(inlineHeader+a.Cap.MaxInline, unit))
	}
	entry = roundUp(entry, blockSize)
	most := m.sendBlocks * blockSize / entry
	if a.Cap.MaxSendWR > most {
		return limitError("sends of this length in a queue", a.Cap.MaxSendWR, most)
	}
	bytes := powerOf2(a.Cap.MaxSendWR * entry)
	if bytes > m.sendBlocks*blockSize {
		return limitError("blocks in a send queue", bytes/blockSize, m.sendBlocks)
	}
	l.blocks, l.posts = uint32(bytes/blockSize), uint32(bytes/entry)
	l.inline, l.pieces = max(entry-fixed-inlineHeader, 0), a.Cap.MaxSendSGE
	return nil
}

func (m *limits) layOutReceives(a *provider.QPInit, l *layout) error {
	if a.Cap.MaxRecvWR > m.recvWR {
		return limitError("receives in a queue", a.Cap.MaxRecvWR, m.recvWR)
	}
	if most := m.recvEntry / unit; a.Cap.MaxRecvSGE > most {
		return limitError("pieces of memory in a receive", a.Cap.MaxRecvSGE, most)
	}
	entry := powerOf2(unit * max(a.Cap.MaxRecvSGE, 1))
	l.receives = uint32(max(powerOf2(a.Cap.MaxRecvWR)*entry, blockSize) / entry)
	l.recvShift, l.recvPieces = log2(entry), entry/unit
	return nil
}

// shared is the layout of a shared receive queue's memory.
type shared struct {
	entries uint32 // number of entries, a power of two; one is always free
	shift   uint32 // log2 of the bytes of an entry
	pieces  int    // scatter/gather elements of an entry
}

// layOutShared returns the layout of a shared receive queue. It leaves out the second half of the
// memory, which rdma-core has for on-demand paging (providers/mlx5/srq.c, mlx5_alloc_srq_buf).
func (m *limits) layOutShared(a *provider.SRQInit) (s shared, err error) {
	if most := min(m.srqWR, 1<<16-1); a.MaxWR > most {
		return s, limitError("receives in a shared queue", a.MaxWR, most)
	}
	if most := m.recvEntry/unit - 1; a.MaxSGE > most {
		return s, limitError("pieces of memory in a shared receive", a.MaxSGE, most)
	}
	entry := powerOf2(max(unit+unit*a.MaxSGE, 2*unit))
	return shared{uint32(powerOf2(a.MaxWR + 1)), log2(entry), entry/unit - 1}, nil
}

// completions returns the number of entries, a power of two, of a queue for cqe completions.
func completions(cqe int) (uint32, error) {
	if cqe < 1 || cqe >= maxCQE {
		return 0, limitError("completions in a queue", cqe, maxCQE-1)
	}
	return uint32(powerOf2(cqe + 1)), nil
}
