//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/abi"

// Memory that work requests name.

// pieces are parts of the process's memory that make up a message. The list is used
// again and again.
type pieces struct{ list [][]byte }

func (p *pieces) clear()       { p.list = p.list[:0] }
func (p *pieces) add(b []byte) { p.list = append(p.list, b) }

// size is how many bytes there are.
func (p *pieces) size() (n int) {
	for _, b := range p.list {
		n += len(b)
	}
	return n
}

// move copies a message from the pieces of one list to those of another, as much as
// there is room for.
func move(to, from [][]byte) {
	var dst, src []byte
	for {
		for len(dst) == 0 {
			if len(to) == 0 {
				return
			}
			dst, to = to[0], to[1:]
		}
		for len(src) == 0 {
			if len(from) == 0 {
				return
			}
			src, from = from[0], from[1:]
		}
		n := copy(dst, src)
		dst, src = dst[n:], src[n:]
	}
}

// fill makes p the memory that a gather list names.
func (p *pieces) fill(k *Kernel, d *pd, list []abi.RxeSge, access uint32) bool {
	p.clear()
	for i := range list {
		s := &list[i]
		if s.Length == 0 {
			continue
		}
		m := k.mrs[s.Lkey>>8]
		if m == nil || m.lkey != s.Lkey || m.pd != d || m.access&access != access {
			return false
		}
		b, ok := m.at(s.Addr, uint64(s.Length))
		if !ok {
			return false
		}
		p.add(b)
	}
	return true
}

// at is the memory of a region from an address that the device knows.
func (m *mr) at(addr, n uint64) ([]byte, bool) {
	off := addr - m.iova
	if addr < m.iova || off > m.length || n > m.length-off {
		return nil, false
	}
	return memory(m.start+off, int(n)), true
}

// remote is memory of q's protection domain that a peer names.
func (q *qp) remote(key uint32, addr, n uint64, access uint32) ([]byte, bool) {
	k := q.f.k
	if w := k.mws[key>>8]; w != nil {
		if w.rkey != key || w.qp != q || w.access&access != access || addr < w.addr || addr-w.addr > w.length || n > w.length-(addr-w.addr) {
			return nil, false
		}
		return w.mr.at(addr, n)
	}
	m := k.mrs[key>>8]
	if m == nil || m.rkey == 0 || m.rkey != key || m.pd != q.pd || m.access&access != access {
		return nil, false
	}
	return m.at(addr, n)
}

// bind opens a memory window.
func (q *qp) bind(b abi.RxeMwWr) uint32 {
	k := q.f.k
	w, m := k.mws[b.MwRkey>>8], k.mrs[b.MrLkey>>8]
	if w == nil || m == nil || w.rkey != b.MwRkey || m.lkey != b.MrLkey || w.pd != q.pd || m.pd != q.pd || w.mr != nil ||
		b.Length == 0 || b.Rkey&0xff == w.rkey&0xff || m.access&abi.IB_UVERBS_ACCESS_MW_BIND == 0 ||
		b.Access&^m.access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE != 0 {
		return wcMWBind
	}
	if _, ok := m.at(b.Addr, b.Length); !ok {
		return wcMWBind
	}
	w.rkey = w.rkey&^0xff | b.Rkey&0xff
	w.mr, w.qp, w.addr, w.length, w.access = m, q, b.Addr, b.Length, b.Access
	return wcSuccess
}

// invalidate closes a memory window.
func (q *qp) invalidate(key uint32) bool {
	w := q.f.k.mws[key>>8]
	if w == nil || w.rkey != key || w.qp != q {
		return false
	}
	w.mr, w.qp = nil, nil
	return true
}

// gather copies pieces into dst.
func gather(dst []byte, pieces [][]byte) {
	for _, p := range pieces {
		dst = dst[copy(dst, p):]
	}
}

// scatter copies src into pieces.
func scatter(pieces [][]byte, src []byte) {
	for _, p := range pieces {
		src = src[copy(p, src):]
	}
}
