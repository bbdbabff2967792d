//go:build linux

package verbs

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// MR is a memory region: memory that the device may access. Any goroutine may use it.
type MR struct {
	pd     *PD
	handle uint32
	id     uint64
	b      []byte
	pinned *runtime.Pinner // nil if no memory is pinned
	iova   uint64
	length uint64
	access Access
	lkey   LKey
	rkey   RKey

	pinner runtime.Pinner
	req    abi.RegMr
	resp   abi.RegMrResp
}

// RegMR registers b, which may be Go heap memory or mapped memory; ibv_reg_mr. It pins b until
// Close: b stays alive and at its address, and its pages stay in physical memory. Peers use MR.Addr
// as its address. Close the region when it is no longer needed, because pinned memory counts
// against RLIMIT_MEMLOCK.
func (p *PD) RegMR(b []byte, access Access) (*MR, error) {
	m := &MR{pd: p, handle: noHandle}
	if err := m.Renew(b, access); err != nil {
		return nil, err
	}
	return m, nil
}

// Renew registers b as RegMR does, but reuses the object of a closed region, with its protection
// domain, and allocates nothing. No work request may still use the old region.
func (m *MR) Renew(b []byte, access Access) error {
	p := m.pd
	if m.handle != noHandle || len(b) == 0 {
		return fmt.Errorf("verbs: %s: MR.Renew with an empty slice, or on a region that is still registered: %w", p.ctx.Name(), ucs.ErrInvalidParam)
	}
	if err := p.ctx.checkAccess(access); err != nil {
		return err
	}
	if p.ctx.coreSupport&abi.IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS == 0 {
		access &^= accessOptional
	}
	id, err := p.ctx.register(m, phaseMR)
	if err != nil {
		return err
	}
	m.id, m.b, m.length, m.access = id, b, uint64(len(b)), access
	m.pin(b)
	m.iova = addressOf(b)
	m.req = abi.RegMr{Start: m.iova, Length: m.length, HcaVa: m.iova, PdHandle: p.handle, AccessFlags: uint32(access)}
	m.resp = abi.RegMrResp{}
	if err := p.ctx.invoke(abi.IB_USER_VERBS_CMD_REG_MR, abi.Bytes(&m.req), abi.Bytes(&m.resp)); err != nil {
		m.abandon()
		p.ctx.unregister(m, m.id)
		return lockLimit(err, len(b))
	}
	m.handle = m.resp.MrHandle
	m.setKeys(m.resp.Lkey, m.resp.Rkey)
	return nil
}

// pin keeps the memory of b alive and in place until abandon.
func (m *MR) pin(b []byte) {
	pin(&m.pinner, b)
	m.pinned = &m.pinner
}

// lockLimit adds a hint to the error of registering n bytes, if RLIMIT_MEMLOCK has probably caused
// it.
func lockLimit(err error, n int) error { return memlockHint(err, fmt.Sprintf("%d bytes wanted", n)) }

// queueLimit is lockLimit for a call that makes or resizes a queue. The parameter in is the
// provider's data for the call, with the address of the memory that the kernel pins. If in is
// empty, the kernel itself allocates the queue's memory, which does not count against the limit.
func queueLimit(err error, in []byte) error {
	if len(in) == 0 {
		return err
	}
	return memlockHint(err, "the memory of queues is pinned")
}

// memlockHint adds a hint to the error of a call that pins memory, if RLIMIT_MEMLOCK has probably
// caused it: what the call pins (parameter what), and the limit.
func memlockHint(err error, what string) error {
	var e *uverbs.Error
	if !errors.As(err, &e) || e.Errno != syscall.ENOMEM && e.Errno != syscall.EPERM {
		return err
	}
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) == nil && l.Cur != unix.RLIM_INFINITY {
		e.Status = ucs.ErrNoMemory // EPERM is a limit of 0
		e.Hint = fmt.Sprintf("%s, the process may lock %d bytes: raise the limit (ulimit -l, LimitMEMLOCK=, or CAP_IPC_LOCK)", what, l.Cur)
	}
	return err
}

// RegDMABufMR registers memory of another device: length bytes from offset on of the dma-buf with
// descriptor fd; ibv_reg_dmabuf_mr. iova is the address that peers will use. Few drivers support
// it, from Linux 5.12 on; see Context.ProbeDMABuf.
func (p *PD) RegDMABufMR(offset, length, iova uint64, fd int, access Access) (*MR, error) {
	m := &MR{pd: p, iova: iova, length: length, access: access}
	id, err := p.ctx.register(m, phaseMR)
	if err != nil {
		return nil, err
	}
	m.id = id
	var lkey, rkey [4]byte
	err = p.ctx.do(uverbs.NewCall(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR).
		New(abi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE, &m.handle).
		Handle(abi.UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, p.handle).
		U64(abi.UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset).
		U64(abi.UVERBS_ATTR_REG_DMABUF_MR_LENGTH, length).
		U64(abi.UVERBS_ATTR_REG_DMABUF_MR_IOVA, iova).
		U32(abi.UVERBS_ATTR_REG_DMABUF_MR_FD, uint32(fd)).
		U32(abi.UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, uint32(access)).
		Out(abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, lkey[:]).
		Out(abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, rkey[:]))
	if err != nil {
		p.ctx.unregister(m, m.id)
		return nil, err
	}
	m.setKeys(native32(lkey[:]), native32(rkey[:]))
	return m, nil
}

// ReregFlags select what MR.Rereg changes.
type ReregFlags uint32

// Flags of MR.Rereg; enum ib_mr_rereg_flags, ib_verbs.h.
const (
	ReregTranslation ReregFlags = 1 << 0 // change the memory
	ReregPD          ReregFlags = 1 << 1 // change the protection domain
	ReregAccess      ReregFlags = 1 << 2 // change the access flags
)

// Rereg changes the parts of a registration that flags select: its memory to b, its protection
// domain to pd, its access flags to access; ibv_rereg_mr. The keys may change, too. The region must
// not be used during the call. Rereg returns ucs.ErrUnsupported for a change that the driver does
// not support: rdma_rxe supports changes from Linux 6.4 on, but not of the memory. After an error
// the region must still be closed.
func (m *MR) Rereg(flags ReregFlags, pd *PD, b []byte, access Access) error {
	c := m.pd.ctx
	if m.handle == noHandle {
		return errClosed
	}
	if flags == 0 || flags&ReregTranslation != 0 && len(b) == 0 || flags&ReregPD != 0 && (pd == nil || pd.ctx != c) {
		return fmt.Errorf("verbs: %s: reregistration with flags %#x, none or without the memory or domain that they need: %w", c.Name(), uint32(flags), ucs.ErrInvalidParam)
	}
	if c.coreSupport&abi.IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS == 0 {
		access &^= accessOptional
	}
	req := abi.ReregMr{MrHandle: m.handle, Flags: uint32(flags)}
	if flags&ReregAccess != 0 {
		if err := c.checkAccess(access); err != nil {
			return err
		}
		req.AccessFlags = uint32(access)
	}
	if flags&ReregPD != 0 {
		req.PdHandle = pd.handle
	}
	pinned := m.pinned
	if flags&ReregTranslation != 0 {
		pinned = new(runtime.Pinner) // the current memory stays pinned until the call has succeeded
		pin(pinned, b)
		req.Start, req.Length = addressOf(b), uint64(len(b))
		req.HcaVa = req.Start
	}
	var resp abi.ReregMrResp
	if err := c.invoke(abi.IB_USER_VERBS_CMD_REREG_MR, abi.Bytes(&req), abi.Bytes(&resp)); err != nil {
		if flags&ReregTranslation != 0 {
			pinned.Unpin()
		}
		return lockLimit(err, len(b))
	}
	if flags&ReregAccess != 0 {
		m.access = access
	}
	m.setKeys(resp.Lkey, resp.Rkey)
	if flags&ReregPD != 0 {
		m.pd = pd
	}
	if flags&ReregTranslation != 0 {
		m.abandon()
		m.pinned, m.b, m.iova, m.length = pinned, b, req.Start, req.Length
	}
	return nil
}

// checkAccess returns an error for access flags that the kernel would refuse.
func (c *Context) checkAccess(access Access) error {
	if access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0 {
		return fmt.Errorf("verbs: %s: access %#x: remote write and atomics need AccessLocalWrite: %w", c.Name(), uint32(access), ucs.ErrInvalidParam)
	}
	return nil
}

// setKeys sets the keys. The remote key is set to 0 if peers have no access, because some kernels
// return a key even then.
func (m *MR) setKeys(lkey, rkey uint32) {
	m.lkey = LKey(lkey)
	m.rkey = 0
	if m.access&accessRemote != 0 {
		m.rkey = RKey(rkey)
	}
}

// PD returns the protection domain.
func (m *MR) PD() *PD { return m.pd }

// LKey returns the local key, for work requests of this process.
func (m *MR) LKey() LKey { return m.lkey }

// RKey returns the remote key, for peers; 0 if they have no access.
func (m *MR) RKey() RKey { return m.rkey }

// Addr returns the address of the first byte, for work requests of this process and of peers.
func (m *MR) Addr() uint64 { return m.iova }

// Len returns the length in bytes.
func (m *MR) Len() int { return int(m.length) }

// Bytes returns the registered memory, nil for a dma-buf.
func (m *MR) Bytes() []byte { return m.b }

// SGE returns the scatter/gather element for the n bytes at offset off of the region. It panics if
// the region is too short, as slicing does.
func (m *MR) SGE(off, n int) SGE {
	if off < 0 || n < 0 || uint64(off)+uint64(n) > m.length || uint64(n) > 1<<31 {
		panic(sgeRange(off, n, m.length))
	}
	return SGE{Addr: m.iova + uint64(off), Length: uint32(n), LKey: m.lkey}
}

// has reports whether the n bytes from address addr on are all in the region.
func (m *MR) has(addr, n uint64) bool {
	return addr >= m.iova && addr-m.iova <= m.length && n <= m.length-(addr-m.iova)
}

//go:noinline
func sgeRange(off, n int, length uint64) string {
	return fmt.Sprintf("verbs: %d bytes at offset %d exceed the region of %d bytes", n, off, length)
}

// Close ends the registration and unpins the memory; ibv_dereg_mr.
func (m *MR) Close() error {
	return m.pd.ctx.destroy(m, m.id, &m.handle, func(handle uint32) *uverbs.Call {
		return uverbs.NewCall(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY).
			Destroy(abi.UVERBS_ATTR_DESTROY_MR_HANDLE, handle)
	})
}

func (m *MR) abandon() {
	if m.pinned != nil {
		m.pinned.Unpin()
	}
	m.pinned, m.b = nil, nil
}
