//go:build linux && (amd64 || arm64)

package oracle_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Locations of the queues of programs on a device that cannot be asked for them. For libmlx5, its
// direct verbs report them (mlx5dv_init_obj, in testdata/probe.c); for ours, the calls to the
// kernel do.

// queueKinds are the kinds of queues, by their numbers in testdata/probe.c.
var queueKinds = [...]string{"completions", "shared", "sends", "receives"}

const kindCompletions, kindShared, kindSends, kindReceives = 0, 1, 2, 3

// location is where a queue is in a program's memory: six numbers, as in testdata/probe.c.
type location struct {
	kind, number  uint64 // number of the queue pair, or index in order of creation
	entry, size   uint64 // bytes of an entry and of the queue, 0 if unknown
	buf, recorded uint64 // addresses of the queue and of the doorbell record
}

// queue reads the queue at a location from a process.
func (p location) queue(pid int) (q queue, err error) {
	q = queue{Kind: queueKinds[p.kind], Number: uint32(p.number), Size: int(p.size), Entry: int(p.entry)}
	n := 8
	if p.kind == kindShared {
		n = 4
	}
	b, err := peek(pid, p.recorded, n)
	for ; len(b) > 0; b = b[4:] {
		q.Record = append(q.Record, binary.BigEndian.Uint32(b))
	}
	q.memory = func(n int) ([]byte, error) { return peek(pid, p.buf, n) }
	return q, err
}

// peek reads the memory of a process.
func peek(pid int, at uint64, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, n)
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(n)
	m, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: n}}, 0)
	switch {
	case err == unix.EPERM:
		return nil, fmt.Errorf("the memory of process %d cannot be read (sysctl kernel.yama.ptrace_scope=1, or root): %w", pid, err)
	case err == nil && m != n:
		err = unix.EFAULT
	}
	if err != nil {
		return nil, fmt.Errorf("%d bytes at %#x of process %d cannot be read: %w", n, at, pid, err)
	}
	return b, nil
}

// locationsOf parses the answer to "queues".
func locationsOf(answer string) (list []location, err error) {
	r := strings.NewReader(answer)
	for r.Len() > 0 {
		var p location
		if _, err := fmt.Fscan(r, &p.kind, &p.number, &p.entry, &p.size, &p.buf, &p.recorded); err != nil || p.kind >= uint64(len(queueKinds)) {
			return nil, fmt.Errorf("queues are %q: %w", answer, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// watched is an open device that keeps the data of the provider's last call to the kernel.
type watched struct {
	verbs.File
	told []byte
}

// Ioctl implements verbs.File.
func (w *watched) Ioctl(f *uverbs.Frame) syscall.Errno {
	var told []byte
	if r, e := uverbs.Parse(f); e == 0 {
		if a := r.Attr(abi.UVERBS_ATTR_UHW_IN); a != nil {
			told = bytes.Clone(a.Bytes)
		}
	}
	e := w.File.Ioctl(f)
	if e == 0 && told != nil {
		w.told = told
	}
	return e
}

// take returns the data since the last take, if any.
func (w *watched) take() []byte {
	told := w.told
	w.told = nil
	return told
}

// locations are the locations of our queues. All methods of a nil one do nothing.
type locations struct {
	told func() []byte
	list []location
}

// tell returns the data of a call as a struct.
func tell[T abi.Struct](told []byte) (v T) {
	copy(abi.Bytes(&v), told)
	return v
}

func (p *locations) cq(i int, q *verbs.CQ) {
	if p != nil {
		in := tell[abi.Mlx5CreateCq](p.told())
		size := uint64(in.CqeSize)
		p.list = append(p.list, location{kindCompletions, uint64(i), size, size * uint64(q.CQE()+1), in.BufAddr, in.DbAddr})
	}
}

// resized updates a queue after a resize, if that called the kernel.
func (p *locations) resized(i int, q *verbs.CQ) {
	if p == nil {
		return
	}
	if told := p.told(); told != nil {
		k := slices.IndexFunc(p.list, func(o location) bool { return o.kind == kindCompletions && o.number == uint64(i) })
		p.list[k].buf, p.list[k].size = tell[abi.Mlx5ResizeCq](told).BufAddr, p.list[k].entry*uint64(q.CQE()+1)
	}
}

// srq adds a shared receive queue, with the sizes that create_srq_user in srq.c of mlx5_ib
// computes.
func (p *locations) srq(i int, a verbs.SRQInitAttr) {
	if p != nil {
		in := tell[abi.Mlx5CreateSrq](p.told())
		entry := uint64(1) << bits.Len(uint(max(32, 16+16*a.MaxSGE)-1))
		p.list = append(p.list, location{kindShared, uint64(i), entry, entry << bits.Len(uint(a.MaxWR)), in.BufAddr, in.DbAddr})
	}
}

// qp adds the queues of a queue pair: the sends are after the receives, as in calc_sq_size in qp.c
// of mlx5_ib.
func (p *locations) qp(q *verbs.QP, shared bool) {
	if p == nil {
		return
	}
	in, number := tell[abi.Mlx5CreateQp](p.told()), uint64(q.QPN())
	head := uint64(in.RqWqeCount) << in.RqWqeShift
	p.list = append(p.list, location{kindSends, number, 64, 64 * uint64(in.SqWqeCount), in.BufAddr + head, in.DbAddr})
	if !shared {
		p.list = append(p.list, location{kindReceives, number, 1 << in.RqWqeShift, head, in.BufAddr, in.DbAddr})
	}
}

func (p *locations) closed(q *verbs.QP) {
	if p != nil {
		p.list = slices.DeleteFunc(p.list, func(o location) bool { return o.kind >= kindSends && o.number == uint64(q.QPN()) })
	}
}

// sorted returns all locations in the order of testdata/probe.c, completion queues only if
// requested.
func (p *locations) sorted(completions bool) (list []location) {
	for _, o := range p.list {
		if o.kind != kindCompletions || completions {
			list = append(list, o)
		}
	}
	slices.SortStableFunc(list, func(a, b location) int { return int(min(a.kind, kindSends)) - int(min(b.kind, kindSends)) })
	return list
}
