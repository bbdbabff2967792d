//go:build linux

package verbstest

import "github.com/ucx-go/ucx/uct/ib/internal/abi"

// Lookup of the memory that work requests refer to by key and address.

// fill sets p to the memory to which a gather list refers; data is the inline data of the request.
// It returns false if a key or its access rights do not allow the access.
func (p *pieces) fill(k *Kernel, d *pd, list []sge, data []byte, access uint32) bool {
	p.clear()
	for i := range list {
		s := &list[i]
		if s.length == 0 {
			continue
		}
		if s.inline {
			p.add(local(data[s.addr:][:s.length]))
			continue
		}
		m := k.mrs[s.lkey>>8]
		if m == nil || m.lkey != s.lkey || m.pd != d || m.access&access != access {
			return false
		}
		b, ok := m.at(s.addr, uint64(s.length))
		if !ok {
			return false
		}
		p.add(b)
	}
	return true
}

// at returns n bytes of a region from addr, an address in the region's iova range, and false if
// they are not all in the region.
func (m *mr) at(addr, n uint64) (piece, bool) {
	off := addr - m.iova
	if addr < m.iova || off > m.length || n > m.length-off {
		return piece{}, false
	}
	return within(m.space, m.start+off, int(n)), true
}

// remote returns the memory of q's protection domain that a peer refers to by key and address. It
// returns false if the key does not allow the access.
func (q *qp) remote(key uint32, addr, n uint64, access uint32) (piece, bool) {
	k := q.f.k
	if w := k.mws[key>>8]; w != nil {
		if w.rkey != key || w.mr == nil || w.pd != q.pd || w.typ == 2 && w.qp != q || w.access&access != access || addr < w.addr || addr-w.addr > w.length || n > w.length-(addr-w.addr) {
			return piece{}, false
		}
		return w.mr.at(w.base+(addr-w.addr), n)
	}
	m := k.mrs[key>>8]
	if m == nil || m.rkey == 0 || m.rkey != key || m.pd != q.pd || m.access&access != access {
		return piece{}, false
	}
	return m.at(addr, n)
}

// bind executes a bind of a memory window and returns the completion status.
func (q *qp) bind(b *binding) uint32 {
	k := q.f.k
	w, m := k.mws[b.window>>8], k.mrs[b.lkey>>8]
	if w != nil && b.length == 0 && w.typ == 1 && w.rkey == b.window && w.pd == q.pd {
		w.rkey, w.mr, w.qp = w.rkey&^0xff|b.key&0xff, nil, nil
		return wcSuccess
	}
	if w == nil || m == nil || w.rkey != b.window || m.lkey != b.lkey || w.pd != q.pd || m.pd != q.pd || w.typ != b.typ || w.typ == 2 && w.mr != nil ||
		b.length == 0 || b.key&0xff == w.rkey&0xff || m.access&abi.IB_UVERBS_ACCESS_MW_BIND == 0 ||
		b.access&^m.access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE != 0 {
		return wcMWBind
	}
	if _, ok := m.at(b.addr, b.length); !ok {
		return wcMWBind
	}
	w.rkey = w.rkey&^0xff | b.key&0xff
	w.mr, w.qp, w.addr, w.base, w.length, w.access = m, q, b.start, b.addr, b.length, b.access
	return wcSuccess
}

// invalidate closes a memory window of type 2 that is bound to q. It reports whether key is the key
// of such a window.
func (q *qp) invalidate(key uint32) bool {
	w := q.f.k.mws[key>>8]
	if w == nil || w.rkey != key || w.qp != q || w.typ != 2 {
		return false
	}
	w.mr, w.qp = nil, nil
	return true
}
