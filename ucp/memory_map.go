package ucp

import (
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/regions"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// MemMapFlags modify Context.MemMap (UCP_MEM_MAP_*).
type MemMapFlags uint32

// Mapping flags, with C's bit numbers.
const (
	MemMapNonblock      MemMapFlags = 1 << 0 // pages may be made resident later; never changes the result
	MemMapAllocate      MemMapFlags = 1 << 1 // the library allocates the memory
	MemMapFixed         MemMapFlags = 1 << 2 // allocate exactly at Address; needs MemMapAllocate
	MemMapSymmetricRkey MemMapFlags = 1 << 3 // hint without effect: use one key for all processes

	memMapKnown = MemMapSymmetricRkey<<1 - 1
)

// MemProt is the set of access rights that memory is registered with (UCP_MEM_MAP_PROT_*).
type MemProt uint32

// Access rights, with C's bit numbers. Atomic operations need remote reading and writing.
const (
	ProtLocalRead   MemProt = 1 << 0
	ProtLocalWrite  MemProt = 1 << 1
	ProtRemoteRead  MemProt = 1 << 8
	ProtRemoteWrite MemProt = 1 << 9

	ProtAll = ProtLocalRead | ProtLocalWrite | ProtRemoteRead | ProtRemoteWrite
)

// access converts the rights to access flags of memory domains.
func (p MemProt) access() uct.Access {
	var a uct.Access
	if p&ProtLocalRead != 0 {
		a |= uct.AccessLocalRead
	}
	if p&ProtLocalWrite != 0 {
		a |= uct.AccessLocalWrite
	}
	if p&ProtRemoteRead != 0 {
		a |= uct.AccessRemoteGet
	}
	if p&ProtRemoteWrite != 0 {
		a |= uct.AccessRemotePut
	}
	if p&ProtRemoteRead != 0 && p&ProtRemoteWrite != 0 {
		a |= uct.AccessRemoteAtomic
	}
	return a
}

// MemMapParams are the parameters of Context.MemMap. They ask for one of three things:
//
//   - register Buffer, which belongs to the caller and is pinned until Close;
//   - allocate Length bytes (MemMapAllocate), anywhere, near Address, or with
//     MemMapFixed exactly at Address;
//   - import what a peer exported (Exported).
//
// A length of 0 gives an empty handle, which all calls accept, if a Buffer that is not nil,
// a flag or an address shows that this is intended. Other combinations give
// ucs.ErrInvalidParam.
type MemMapParams struct {
	Buffer  []byte // memory to register
	Length  int    // bytes to allocate
	Address uint64 // wanted address of an allocation, 0 for any; a page boundary with MemMapFixed
	Flags   MemMapFlags
	Prot    MemProt // 0 means ProtAll

	// MemoryType is the type of Buffer, or of the memory to allocate. The zero value means
	// host memory, the only type so far.
	MemoryType ucs.MemoryType

	Exported []byte // from Memory.Export; untrusted

	// Peers, unless nil, limits access to the peers of these endpoints and those added by
	// Memory.Allow; an empty list permits no peer. Keys of such memory name no domain that
	// would admit every holder of the key, so peers access it by messages, or by puts over
	// connections that are verified to be theirs. With Peers, MemMap must be called on the
	// goroutine of each of these endpoints.
	Peers []*Endpoint

	Name string // name of an allocation, for debugging
}

// check sets a Prot of 0 to ProtAll and returns ucs.ErrInvalidParam if the parameters are not valid.
// empty reports that MemMap must return an empty handle.
func (p *MemMapParams) check() (empty bool, err error) {
	bad := func(format string, args ...any) (bool, error) {
		return false, fmt.Errorf("ucp: memory parameters: %s: %w", fmt.Sprintf(format, args...), ucs.ErrInvalidParam)
	}
	if p.Prot == 0 {
		p.Prot = ProtAll
	}
	address := p.Address
	if len(p.Buffer) > 0 {
		address = word.Address(p.Buffer)
	}
	allocate, fixed := p.Flags&MemMapAllocate != 0, p.Flags&MemMapFixed != 0
	switch {
	case p.Flags&^memMapKnown != 0 || p.Prot&^ProtAll != 0:
		return bad("unknown flags %#x or rights %#x", p.Flags, p.Prot)
	case fixed && address%uint64(arena.PageSize) != 0:
		return bad("the fixed address %#x is not a multiple of the page size, %d bytes", address, arena.PageSize)
	case p.Length < 0 || p.Buffer != nil && p.Length != 0 && p.Length != len(p.Buffer):
		return bad("Length is %d, wanted 0, or the length of Buffer, or more than 0 to allocate", p.Length)
	case p.Buffer != nil && p.Address != 0:
		return bad("both Buffer and Address are given")
	case !p.MemoryType.Valid():
		return bad("unknown MemoryType %d", p.MemoryType)
	case p.Exported != nil && (allocate || p.Buffer != nil):
		return bad("Exported is given together with other memory")
	case p.Exported != nil:
		return false, nil
	}
	length := max(p.Length, len(p.Buffer))
	switch {
	case length == 0 && p.Buffer == nil && p.Address == 0 && p.Flags == 0:
		return bad("none of Buffer, Exported and MemMapAllocate is given")
	case length == 0:
		return true, nil
	case allocate && p.Buffer != nil:
		return bad("both Buffer and MemMapAllocate are given")
	case allocate && fixed && address == 0:
		return bad("MemMapFixed is given without Address")
	case !allocate && fixed:
		return bad("MemMapFixed is given without MemMapAllocate")
	case !allocate && p.Buffer == nil:
		return bad("Length is %d, but neither Buffer nor MemMapAllocate is given", length)
	}
	return false, nil
}

// MemMap registers memory of the caller, or allocates memory, so that peers can access it
// while this process progresses its worker (or WorkerParams.Background does). Large
// messages sent from memory that a shared-memory domain allocated carry its key, if the
// memory is open to remote reads and writes: a receiver on this machine maps the whole
// allocation and copies the message out of it. The Memory must be closed before the
// context is closed.
func (c *Context) MemMap(p MemMapParams) (*Memory, error) {
	if c.missing() {
		return nil, errMissing("Context.MemMap", c == nil)
	}
	empty, err := p.check()
	if err != nil {
		return nil, err
	}
	var exported proto.ExportedMemory
	if p.Exported != nil {
		if exported, _, err = proto.ParseExportedMemory(p.Exported); err != nil {
			return nil, err
		}
		empty = exported.Length == 0 && exported.MDMap == 0
	}
	if p.MemoryType > ucs.MemoryHost {
		return nil, fmt.Errorf("ucp: %v memory: %w", p.MemoryType, ucs.ErrUnsupported)
	}
	m := &Memory{ctx: c, memType: ucs.MemoryHost, prot: p.Prot, owner: -1, limited: p.Peers != nil}
	if empty {
		return m, nil
	}
	if err := c.addMemory(m); err != nil {
		return nil, err
	}
	m.handles = make([]uct.MemHandle, len(c.mds))
	switch {
	case p.Exported != nil:
		err = m.importFrom(&exported)
	case p.Flags&MemMapAllocate != 0:
		err = m.allocate(&p)
	}
	if err != nil {
		c.dropMemory(m)
		return nil, err
	}
	if m.owner < 0 && m.mapped == nil {
		m.buf = p.Buffer
		m.pin = c.pins.Pin(m.buf)
	}
	m.register()
	m.region = &regions.Region{Base: word.Address(m.buf), Buf: m.buf, Access: p.Prot.access(), Free: m.free, Owner: m, Limited: m.limited}
	m.keyForMessages()
	c.table.Add(m.region)
	for _, ep := range p.Peers {
		if err := m.Allow(ep); err != nil {
			m.Close()
			return nil, err
		}
	}
	return m, nil
}

// Register registers b, which belongs to the caller and is pinned until Close. It is MemMap
// with Buffer. A prot of 0 means ProtAll.
func (c *Context) Register(b []byte, prot MemProt) (*Memory, error) {
	if c.missing() {
		return nil, errMissing("Context.Register", c == nil)
	}
	if b == nil {
		b = []byte{} // a nil b gives an empty handle
	}
	return c.MemMap(MemMapParams{Buffer: b, Prot: prot})
}

// Alloc allocates at least n bytes that peers can access. It is MemMap with MemMapAllocate.
// A prot of 0 means ProtAll.
func (c *Context) Alloc(n int, prot MemProt) (*Memory, error) {
	if c.missing() {
		return nil, errMissing("Context.Alloc", c == nil)
	}
	return c.MemMap(MemMapParams{Length: n, Flags: MemMapAllocate, Prot: prot})
}

// keyForMessages packs the key that rendezvous offers of data in the memory contain, if the domain
// that allocated the memory lets peers map it.
func (m *Memory) keyForMessages() {
	if m.owner < 0 || m.ctx.mds[m.owner].md.Attr().Flags&uct.MDFlagRkeyPtr == 0 || !m.packs(m.owner) {
		return
	}
	key, err := m.ctx.mds[m.owner].md.AppendKey(nil, m.handles[m.owner])
	k := proto.NewRkey(m.memType.Wire())
	if err == nil {
		err = k.Add(uint8(m.owner), key)
	}
	if err != nil {
		m.ctx.log.Debug("cannot pack a key of allocated memory for rendezvous messages", zap.String("domain", m.method), zap.Error(err))
		return
	}
	m.region.MapMD, m.region.Rkey = 1<<m.owner, k.Append(nil)
}

// addMemory records an open memory handle, and dropMemory removes it. The context cannot be closed
// while a handle is recorded. addMemory fails if the context is closed.
func (c *Context) addMemory(m *Memory) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("ucp: context %s is closed: %w", c.name, ucs.ErrInvalidParam)
	}
	c.memories[m] = struct{}{}
	return nil
}

func (c *Context) dropMemory(m *Memory) {
	c.mu.Lock()
	delete(c.memories, m)
	c.mu.Unlock()
}

// register registers the memory in the domains that did not allocate it. A domain that fails to
// register the memory is left out: its transports work without a registration.
func (m *Memory) register() {
	for i := range m.ctx.mds {
		md := m.ctx.mds[i].md
		a := md.Attr()
		if i == m.owner || a.Flags&uct.MDFlagRegister == 0 || uint64(len(m.buf)) > a.MaxReg {
			continue
		}
		access := m.prot.access()
		if m.limited {
			// Allow grants remote access to each peer separately.
			if access &^= uct.AccessRemote; a.Flags&uct.MDFlagNeedMemh == 0 {
				continue
			}
		}
		h, err := md.Register(m.buf, access)
		if err != nil {
			m.ctx.log.Debug("memory domain cannot register memory", zap.String("domain", a.Name), zap.Int("bytes", len(m.buf)), zap.Error(err))
			continue
		}
		m.handles[i] = h
	}
}

// allocate allocates memory by the first method in UCX_ALLOC_PRIO that succeeds.
func (m *Memory) allocate(p *MemMapParams) error {
	var reasons []error
	for _, way := range m.ctx.settings.AllocPrio.Items {
		var err error
		if name, ok := strings.CutPrefix(way, "md:"); ok {
			err = m.allocateFrom(name, p)
		} else {
			err = m.allocateArena(way, p)
		}
		if err == nil {
			return nil
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", way, err))
	}
	return fmt.Errorf("ucp: allocating %d bytes by UCX_ALLOC_PRIO=%v: %w: %w",
		p.Length, m.ctx.settings.AllocPrio, errors.Join(reasons...), ucs.ErrNoMemory)
}

var errNotThere = errors.New("no memory domain can allocate")

// allocateFrom allocates memory from a memory domain of the component with that name, or of any
// component for "*".
func (m *Memory) allocateFrom(name string, p *MemMapParams) error {
	err := errNotThere
	for i := range m.ctx.mds {
		o := &m.ctx.mds[i]
		a := o.md.Attr()
		fixed := p.Flags&MemMapFixed != 0
		if a.Flags&uct.MDFlagAlloc == 0 || name != "*" && name != o.component.Name() ||
			fixed && a.Flags&uct.MDFlagFixed == 0 {
			continue
		}
		h, failed := o.md.Alloc(uct.AllocParams{
			Length:   p.Length,
			Address:  p.Address,
			Fixed:    fixed,
			Nonblock: p.Flags&MemMapNonblock != 0,
			Access:   p.Prot.access(),
			Name:     p.Name,
		})
		if failed != nil {
			err = failed
			continue
		}
		m.handles[i], m.owner, m.buf, m.method = h, i, h.Bytes(), a.Name
		return nil
	}
	return err
}

// allocateArena allocates memory from the kernel, by a method of UCX_ALLOC_PRIO that names no
// memory domain. No method uses the Go heap, because the Go runtime ends the program when the heap
// cannot grow.
func (m *Memory) allocateArena(way string, p *MemMapParams) error {
	o := arena.Options{
		Address:  p.Address,
		Fixed:    p.Flags&MemMapFixed != 0,
		Populate: p.Flags&MemMapNonblock == 0,
	}
	switch way {
	case "huge":
		o.Huge = arena.HugePages
	case "thp":
		if p.Length < arena.HugePageSize {
			return fmt.Errorf("%d bytes are less than a huge page of %d", p.Length, arena.HugePageSize)
		}
		o.Huge = arena.TransparentPages
	case "mmap":
	case "heap", "libc":
		if o.Fixed {
			return errors.New("cannot allocate at a fixed address")
		}
		o.Populate = false // as in a heap, pages become resident when they are used
	default:
		return fmt.Errorf("not an allocation method: %w", ucs.ErrInvalidParam)
	}
	b, err := arena.Map(p.Length, o)
	if err != nil {
		return err
	}
	m.buf, m.mapped, m.method = b, b, way
	return nil
}

// Export returns a handle for another process that uses the same device of a memory domain;
// that process passes it to MemMap (ucp_memh_pack with UCP_MEMH_PACK_FLAG_EXPORT). It fails
// with ucs.ErrUnsupported if no domain can export the memory (uct.MDFlagExportedMkey), as with all
// domains of this library.
func (m *Memory) Export() ([]byte, error) {
	if m.missing() {
		return nil, errMissing("Memory.Export", m == nil)
	}
	if m.region == nil {
		return proto.ExportedMemory{}.Append(nil), nil
	}
	e := proto.ExportedMemory{MemType: m.memType.Wire(), Address: word.Address(m.buf), Length: uint64(len(m.buf))}
	for i, h := range m.handles {
		x := m.ctx.mds[i].exporter()
		if x == nil || h == nil {
			continue
		}
		key, err := x.AppendExportedKey(nil, h)
		if err != nil {
			return nil, fmt.Errorf("ucp: exporting memory: %w", err)
		}
		e.MDMap |= 1 << i
		e.Keys = append(e.Keys, proto.ExportedKey{Key: key, GlobalID: []byte(m.ctx.mds[i].md.Attr().GlobalID)})
	}
	if e.MDMap == 0 {
		return nil, fmt.Errorf("ucp: exporting memory: %w", m.ctx.noExport())
	}
	return e.Append(nil), nil
}

// importFrom imports memory that another process has exported, and makes it the memory of the
// handle.
func (m *Memory) importFrom(e *proto.ExportedMemory) error {
	if e.Length > maxImport {
		return fmt.Errorf("ucp: importing %d bytes: %w", e.Length, ucs.ErrInvalidParam)
	}
	var failed error
	for _, k := range e.Keys {
		for i := range m.ctx.mds {
			md := m.ctx.mds[i].md
			x := m.ctx.mds[i].exporter()
			if x == nil || md.Attr().GlobalID != string(k.GlobalID) {
				continue
			}
			h, err := x.ImportKey(k.Key, int(e.Length))
			if err == nil && uint64(len(h.Bytes())) != e.Length {
				err = errors.Join(errImported, md.Deregister(h))
			}
			if err == nil {
				m.handles[i], m.owner, m.buf, m.method = h, i, h.Bytes(), md.Attr().Name
				return nil
			}
			failed = errors.Join(failed, fmt.Errorf("%s: %w", md.Attr().Name, err))
		}
	}
	if failed == nil {
		failed = m.ctx.noExport()
	}
	return fmt.Errorf("ucp: importing memory: %w", failed)
}

// maxImport is the largest length, in bytes, that an imported handle may claim.
const maxImport = 1 << (30 + 16*(^uint(0)>>63)) // 2^46, and 2^30 where an int has 32 bits

var errImported = fmt.Errorf("the imported memory differs from the handle: %w", ucs.ErrUnsupported)

// exporter returns the domain's interface for exporting and importing memory, nil if the domain
// supports neither.
func (m *openMD) exporter() uct.DeviceMemory {
	d, _ := m.md.(uct.DeviceMemory)
	if d == nil || !m.md.Attr().Flags.Has(uct.MDFlagExportedMkey) {
		return nil
	}
	return d
}

// exports reports whether a memory domain of the context can export and import memory.
func (c *Context) exports() bool {
	for i := range c.mds {
		if c.mds[i].exporter() != nil {
			return true
		}
	}
	return false
}

// noExport returns the error of an export or import that no memory domain can carry out.
func (c *Context) noExport() error {
	if c.exports() {
		return fmt.Errorf("no memory domain that supports cross-process handles has the memory or its device: %w", ucs.ErrUnsupported)
	}
	return fmt.Errorf("none of the %d memory domains supports cross-process handles, which need a device with such keys: %w", len(c.mds), ucs.ErrUnsupported)
}
