//go:build linux

package verbstest

import (
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// Memory regions.

func (f *file) regMR(m abi.RegMr, out []byte) syscall.Errno {
	p, ok := find[*pd](f, m.PdHandle)
	if !ok {
		return syscall.ENOENT
	}
	if !validAccess(m.AccessFlags) || (m.HcaVa^m.Start)&4095 != 0 || m.HcaVa+m.Length < m.HcaVa {
		return syscall.EINVAL
	}
	if !f.reaches(m.Start, m.Length) {
		return syscall.EFAULT
	}
	pinned := pages(m.Start, m.Length)
	if e := f.k.pin(pinned); e != 0 {
		return e
	}
	o := &mr{pd: p, space: f.space, pinned: pinned, index: f.k.nextKey, start: m.Start, iova: m.HcaVa, length: m.Length, access: m.AccessFlags}
	f.k.nextKey++
	o.lkey = o.index<<8 | 0x5a
	o.setAccess(m.AccessFlags)
	f.k.mrs[o.index] = o
	p.refs++
	store(out, abi.RegMrResp{MrHandle: f.add(o), Lkey: o.lkey, Rkey: o.rkey})
	return 0
}

// reaches reports whether n bytes at addr are mapped in the program that has the device open.
func (f *file) reaches(addr, n uint64) bool {
	if f.space != nil {
		return f.space.Mapped(addr, n)
	}
	return mapped(addr, n)
}

// remoteAccess is the set of the remote access flags. A region with one of them gets an rkey.
const remoteAccess = abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_READ | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC

func validAccess(access uint32) bool {
	const writes = abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	const known = remoteAccess | abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_MW_BIND | abi.IB_UVERBS_ACCESS_OPTIONAL_RANGE
	return access&^known == 0 && (access&writes == 0 || access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE != 0)
}

func (m *mr) setAccess(access uint32) {
	m.access, m.rkey = access, 0
	if access&remoteAccess != 0 {
		m.rkey = m.lkey
	}
}

// reregMR changes a region. rdma_rxe does not support this up to Linux 6.3.
func (f *file) reregMR(m abi.ReregMr, out []byte) syscall.Errno {
	const (
		translation = 1 << 0 // enum ib_mr_rereg_flags, ib_verbs.h
		domain      = 1 << 1
		access      = 1 << 2
	)
	o, ok := find[*mr](f, m.MrHandle)
	if !ok {
		return syscall.ENOENT
	}
	switch {
	case m.Flags&^(translation|domain|access) != 0:
		return syscall.EOPNOTSUPP
	case m.Flags == 0, m.Flags&access != 0 && !validAccess(m.AccessFlags),
		m.Flags&translation != 0 && ((m.HcaVa^m.Start)&4095 != 0 || m.HcaVa+m.Length < m.HcaVa):
		return syscall.EINVAL
	case m.Flags&translation != 0 && !f.reaches(m.Start, m.Length):
		return syscall.EFAULT
	}
	p := o.pd
	if m.Flags&domain != 0 {
		if p, ok = find[*pd](f, m.PdHandle); !ok {
			return syscall.ENOENT
		}
	}
	if m.Flags&translation != 0 {
		n := pages(m.Start, m.Length)
		if e := f.k.pin(n - o.pinned); e != 0 {
			return e
		}
		o.pinned = n
	}
	o.pd.refs--
	o.pd = p
	p.refs++
	if m.Flags&access != 0 {
		o.setAccess(m.AccessFlags)
	}
	if m.Flags&translation != 0 {
		o.start, o.iova, o.length = m.Start, m.HcaVa, m.Length
	}
	store(out, abi.ReregMrResp{Lkey: o.lkey, Rkey: o.rkey})
	return 0
}
