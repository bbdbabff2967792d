//go:build linux

package verbs

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/ucs"
)

// MR is a memory region: memory that the device may access. Any goroutine may use it.
type MR struct {
	pd     *PD
	handle uint32
	id     uint64
	b      []byte
	pinned *runtime.Pinner // nil if nothing is
	iova   uint64
	length uint64
	access Access
	lkey   LKey
	rkey   RKey

	pinner runtime.Pinner
	req    abi.RegMr
	resp   abi.RegMrResp
}

// RegMR registers b, which may be Go heap memory or mapped; ibv_reg_mr. It pins b until
// Close: b stays alive and in place, and so do its pages. Peers address it by MR.Addr.
// Close it when it is not needed any more: pinned memory counts against RLIMIT_MEMLOCK.
func (p *PD) RegMR(b []byte, access Access) (*MR, error) {
	m := &MR{pd: p, handle: noHandle}
	if err := m.Renew(b, access); err != nil {
		return nil, err
	}
	return m, nil
}

// Renew registers b as RegMR does, in the domain of a closed region, and reuses the
// region's object, so nothing is allocated. The old region must not be in use any more.
func (m *MR) Renew(b []byte, access Access) error {
	p := m.pd
	if m.handle != noHandle || len(b) == 0 {
		return fmt.Errorf("verbs: %s: registration of no memory, or over one that is open: %w", p.ctx.Name(), ucs.ErrInvalidParam)
	}
	if err := p.ctx.checkAccess(access); err != nil {
		return err
	}
	if p.ctx.coreSupport&abi.IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS == 0 {
		access &^= accessOptional
	}
	id, err := p.ctx.begin(m, turnMR)
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
		p.ctx.end(m, m.id)
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

// lockLimit adds to the error of a registration which limit it has probably met.
func lockLimit(err error, n int) error { return limited(err, fmt.Sprintf("%d bytes wanted", n)) }

// queueLimit is lockLimit of a call that makes a queue or changes its size. in is what the
// provider sends along: where the memory is that the kernel pins. A provider with nothing to
// say has memory of the kernel's, which does not count.
func queueLimit(err error, in []byte) error {
	if len(in) == 0 {
		return err
	}
	return limited(err, "the memory of queues is pinned")
}

// limited adds to an error what was to be pinned, and how much may be.
func limited(err error, what string) error {
	var e *uverbs.Error
	if !errors.As(err, &e) || e.Errno != syscall.ENOMEM && e.Errno != syscall.EPERM {
		return err
	}
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) == nil && l.Cur != unix.RLIM_INFINITY {
		e.Status = ucs.ErrNoMemory // EPERM is a limit of 0
		e.Hint = fmt.Sprintf("%s, %d bytes may be locked in all: raise the limit (ulimit -l, LimitMEMLOCK=, or CAP_IPC_LOCK)", what, l.Cur)
	}
	return err
}

// RegDMABufMR registers memory of another device, given as a dma-buf; ibv_reg_dmabuf_mr.
// iova is the address that peers will use. Few drivers support it, from Linux 5.12 on; see
// Context.ProbeDMABuf.
func (p *PD) RegDMABufMR(offset, length, iova uint64, fd int, access Access) (*MR, error) {
	m := &MR{pd: p, iova: iova, length: length, access: access}
	id, err := p.ctx.begin(m, turnMR)
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
		p.ctx.end(m, m.id)
		return nil, err
	}
	m.setKeys(native32(lkey[:]), native32(rkey[:]))
	return m, nil
}

// ReregFlags select what MR.Rereg changes.
type ReregFlags uint32

// What MR.Rereg changes; enum ib_mr_rereg_flags, ib_verbs.h.
const (
	ReregTranslation ReregFlags = 1 << 0 // the memory
	ReregPD          ReregFlags = 1 << 1
	ReregAccess      ReregFlags = 1 << 2
)

// Rereg changes the parts of a registration that flags select: its memory to b, its domain
// to pd, the access of peers to access; ibv_rereg_mr. The keys may change as well. The
// region must not be used meanwhile. A change that the driver does not support gives
// ucs.ErrUnsupported: rdma_rxe supports changes from Linux 6.4 on, but not of the memory.
// After an error the region must still be closed.
func (m *MR) Rereg(flags ReregFlags, pd *PD, b []byte, access Access) error {
	c := m.pd.ctx
	if m.handle == noHandle {
		return errClosed
	}
	if flags == 0 || flags&ReregTranslation != 0 && len(b) == 0 || flags&ReregPD != 0 && (pd == nil || pd.ctx != c) {
		return fmt.Errorf("verbs: %s: reregistration of %#x without flags for what to change: %w", c.Name(), uint32(flags), ucs.ErrInvalidParam)
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
		pinned = new(runtime.Pinner) // beside that of what is registered now
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

// checkAccess refuses what the kernel would.
func (c *Context) checkAccess(access Access) error {
	if access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0 {
		return fmt.Errorf("verbs: %s: access %#x: peers write only where AccessLocalWrite is given: %w", c.Name(), uint32(access), ucs.ErrInvalidParam)
	}
	return nil
}

// setKeys takes the keys over. Some kernels name a key for peers also where peers
// may do nothing.
func (m *MR) setKeys(lkey, rkey uint32) {
	m.lkey = LKey(lkey)
	m.rkey = 0
	if m.access&accessRemote != 0 {
		m.rkey = RKey(rkey)
	}
}

// PD returns the protection domain.
func (m *MR) PD() *PD { return m.pd }

// LKey returns the key for local use.
func (m *MR) LKey() LKey { return m.lkey }

// RKey returns the key for peers, 0 if they have no access.
func (m *MR) RKey() RKey { return m.rkey }

// Addr returns the address of the first byte, for work requests here and at peers.
func (m *MR) Addr() uint64 { return m.iova }

// Len returns the length in bytes.
func (m *MR) Len() int { return int(m.length) }

// Bytes returns the memory, nil for a dma-buf.
func (m *MR) Bytes() []byte { return m.b }

// SGE describes n bytes of the region that begin at off, for a work request. It panics if
// the region is too short, as slicing does.
func (m *MR) SGE(off, n int) SGE {
	if off < 0 || n < 0 || uint64(off)+uint64(n) > m.length || uint64(n) > 1<<31 {
		panic(sgeRange(off, n, m.length))
	}
	return SGE{Addr: m.iova + uint64(off), Length: uint32(n), LKey: m.lkey}
}

// has reports whether n bytes from an address on are in the region.
func (m *MR) has(addr, n uint64) bool {
	return addr >= m.iova && addr-m.iova <= m.length && n <= m.length-(addr-m.iova)
}

//go:noinline
func sgeRange(off, n int, length uint64) string {
	return fmt.Sprintf("verbs: %d bytes from %d on of a region of %d", n, off, length)
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
