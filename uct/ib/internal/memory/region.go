//go:build linux

package memory

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Region is registered memory of a domain.
type Region struct {
	space *Space
	b     []byte
	mr    *verbs.MR // nil for a region of no bytes

	foreign bool // memory of another device
}

// Bytes implements uct.MemHandle.
func (r *Region) Bytes() []byte { return r.b }

// SGE describes n bytes of the region that begin at off. It panics if the region is too
// short.
func (r *Region) SGE(off, n int) verbs.SGE { return r.mr.SGE(off, n) }

// LKey returns the key for local use.
func (r *Region) LKey() verbs.LKey {
	if r.mr == nil {
		return 0
	}
	return r.mr.LKey()
}

// Addr returns the address of the first byte, as the device sees it.
func (r *Region) Addr() uint64 {
	if r.mr == nil {
		return 0
	}
	return r.mr.Addr()
}

// regionPool counts the regions of a domain and the chunks of its interfaces, and keeps
// deregistered regions for reuse.
type regionPool struct {
	mu   sync.Mutex
	n    int       // guarded by mu
	free []*Region // guarded by mu: deregistered, to be reused
}

// maxFree bounds the free list: it is the number of regions likely to exist at once.
const maxFree = 64

// take returns a deregistered region, or a new one if the free list is empty.
func (p *regionPool) take() *Region {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return new(Region)
	}
	r := p.free[last]
	p.free[last], p.free = nil, p.free[:last]
	return r
}

// put adds a deregistered region to the free list, unless the list is full.
func (p *regionPool) put(r *Region) {
	r.b = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < maxFree {
		p.free = append(p.free, r)
	}
}

func (p *regionPool) add(n int) {
	p.mu.Lock()
	p.n += n
	p.mu.Unlock()
}

func (p *regionPool) live() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// accessOf returns the verbs access flags for the rights in access. Peers get only the rights
// that access asks for.
func (s *Space) accessOf(access uct.Access) verbs.Access {
	a := s.access
	if access&(uct.AccessRemote|uct.AccessLocal) == 0 {
		a |= verbs.AccessLocalWrite // the default if access names no local or remote right
	}
	if access&(uct.AccessLocalWrite|uct.AccessRemotePut|uct.AccessRemoteAtomic) != 0 {
		a |= verbs.AccessLocalWrite
	}
	if access&uct.AccessRemotePut != 0 {
		a |= verbs.AccessRemoteWrite
	}
	if access&uct.AccessRemoteGet != 0 {
		a |= verbs.AccessRemoteRead
	}
	if access&uct.AccessRemoteAtomic != 0 {
		a |= verbs.AccessRemoteAtomic
	}
	return a
}

// Alloc implements uct.MemoryDomain.
func (s *Space) Alloc(uct.AllocParams) (uct.MemHandle, error) { return nil, ucs.ErrUnsupported }

// Register implements uct.MemoryDomain. The memory stays in place and, if it is Go memory,
// alive until Deregister; its pages are pinned.
func (s *Space) Register(buf []byte, access uct.Access) (uct.MemHandle, error) {
	if len(buf) == 0 {
		s.regions.add(1)
		return &Region{space: s, b: buf}, nil
	}
	r := s.regions.take()
	a := s.accessOf(access)
	var err error
	if r.mr == nil {
		r.mr, err = s.pd.RegMR(buf, a)
	} else {
		err = r.mr.Renew(buf, a)
	}
	if err != nil {
		s.regions.put(r)
		return nil, err
	}
	r.space, r.b = s, buf
	s.regions.add(1)
	return r, nil
}

// region returns the region of a handle. A handle of another domain is an error that matches
// ucs.ErrInvalidParam.
func (s *Space) region(m uct.MemHandle) (*Region, error) {
	r, ok := m.(*Region)
	if !ok || r.space != s {
		return nil, fmt.Errorf("ib: handle of another domain: %w", ucs.ErrInvalidParam)
	}
	return r, nil
}

// Deregister implements uct.MemoryDomain. When it returns no peer accesses the memory any
// more. The handle may be reused for other memory.
func (s *Space) Deregister(m uct.MemHandle) error {
	r, err := s.region(m)
	if err != nil {
		return err
	}
	r.space = nil
	s.regions.add(-1)
	if r.mr == nil {
		return nil
	}
	if err = r.mr.Close(); err == nil && !r.foreign {
		s.regions.put(r)
	}
	return s.Closed(err)
}

// A packed key is two 32-bit keys, little-endian. The first key is for all operations. The
// second key is for atomics and for puts behind a weak fence; it is optional. An access with
// the second key adds an offset to the address; the offset is in the endpoint's address
// (uct_ib_md_pack_rkey, src/uct/ib/base/ib_md.h).
const (
	KeySize = 8          // bytes of a packed key
	noRKey  = 0xffffffff // in place of an absent second key
)

// AppendKey implements uct.MemoryDomain.
func (s *Space) AppendKey(b []byte, m uct.MemHandle) ([]byte, error) {
	r, err := s.region(m)
	if err != nil {
		return b, err
	}
	var key verbs.RKey
	if r.mr != nil {
		key = r.mr.RKey()
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(key))
	return binary.LittleEndian.AppendUint32(b, noRKey), nil
}

// UnpackRkey implements uct.MemoryDomain. The value is the packed key.
func (s *Space) UnpackRkey(packed []byte) (*uct.Rkey, error) {
	v, err := s.RkeyValue(packed)
	if err != nil {
		return nil, err
	}
	return &uct.Rkey{Value: v}, nil
}

// RkeyValue implements uct.DeviceMemory.
func (s *Space) RkeyValue(packed []byte) (uint64, error) {
	if len(packed) != KeySize {
		return 0, fmt.Errorf("ib: remote key of %d bytes, not %d: %w", len(packed), KeySize, ucs.ErrInvalidParam)
	}
	return binary.LittleEndian.Uint64(packed), nil
}

// DirectKey returns the key for all operations from a remote key's value.
func DirectKey(key *uct.Rkey) verbs.RKey { return verbs.RKey(key.Value) }

// AtomicKey returns the second key of a remote key's value, if there is one.
func AtomicKey(key *uct.Rkey) (k verbs.RKey, ok bool) {
	k = verbs.RKey(key.Value >> 32)
	return k, k != noRKey
}

// RkeyPtr implements uct.MemoryDomain.
func (s *Space) RkeyPtr(*uct.Rkey, uint64, int) ([]byte, error) { return nil, ucs.ErrUnsupported }

// ReleaseRkey implements uct.MemoryDomain.
func (s *Space) ReleaseRkey(*uct.Rkey) error { return nil }

// Gather appends an entry for each piece of iov that is not empty to list. The memory is to be sent
// or filled. Each piece must be memory of a handle of this domain; otherwise the error matches
// ucs.ErrInvalidParam.
func (s *Space) Gather(list []verbs.SGE, iov []uct.IOV) ([]verbs.SGE, error) {
	for i := range iov {
		b := iov[i].Data
		if len(b) == 0 {
			continue
		}
		r, ok := iov[i].Mem.(*Region)
		if !ok || r.space != s {
			return list, errNoHandle
		}
		at := addressOf(b)
		if r.mr == nil || at < r.mr.Addr() || at+uint64(len(b)) > r.mr.Addr()+uint64(len(r.b)) || uint64(len(b)) > math.MaxUint32 {
			return list, errOutside
		}
		list = append(list, verbs.SGE{Addr: at, Length: uint32(len(b)), LKey: r.mr.LKey()})
	}
	return list, nil
}

var (
	errNoHandle = fmt.Errorf("ib: memory without a handle of the domain: %w", ucs.ErrInvalidParam)
	errOutside  = fmt.Errorf("ib: memory outside that of its handle: %w", ucs.ErrInvalidParam)
)
