package ucp

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucp/internal/regions"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// Memory is registered memory. Peers that have its packed key may access any part of it,
// within the rights that it was mapped with, until Close. Meanwhile this process has to
// progress the worker, or set WorkerParams.Background: the worker carries out many of the
// accesses. Any goroutine may call its methods; Allow follows the rules of the endpoint's
// worker.
type Memory struct {
	_ noCopy

	ctx     *Context
	buf     []byte
	memType ucs.MemoryType
	prot    MemProt
	method  string // how it was allocated, "" for memory of the caller

	// handles holds the handle of each memory domain that allocated or registered the memory, by
	// index of the domain in the context; nil for the other domains. owner is the index of the
	// domain that allocated the memory, -1 if none did.
	handles []uct.MemHandle
	owner   int

	limited bool       // only allowed peers may access the memory
	scoped  []exposure // registrations for the allowed peers, in domains that distinguish peers; guarded by ctx.mu

	region *regions.Region // nil if the handle is empty
	mapped []byte          // memory allocated from the kernel, which free unmaps
	pin    *runtime.Pinner
	done   atomic.Bool // the memory is closed; set under ctx.mu
	// users is the number of operations in flight that use the memory: those with
	// RequestParams.Memory, and those whose buffer an RDMA device accesses.
	users atomic.Int32
}

// MemAttr describes a Memory.
type MemAttr struct {
	Address    uint64 // address of the first byte, which peers use as the remote address
	Length     int    // bytes; an allocation may be longer than requested
	MemoryType ucs.MemoryType
}

// Attr returns the address, length and type of the memory.
func (m *Memory) Attr() MemAttr {
	a := MemAttr{Length: len(m.buf), MemoryType: m.memType}
	if len(m.buf) > 0 {
		a.Address = word.Address(m.buf)
	}
	return a
}

// Bytes returns the memory: the caller's slice, or the allocation. An allocation must not
// be used after Close.
func (m *Memory) Bytes() []byte { return m.buf }

// Close ends the registration. Accesses that peers start afterwards are refused, except by
// C UCX peers that have the memory mapped, or that copy by cma, which involves no action of
// this process. Memory that peers are reading is kept until they are done. The caller's own
// memory is left alone; allocated memory is freed. A second Close does nothing.
//
// Close is refused with ucs.ErrBusy, and the memory stays registered, in two cases: an
// operation in flight uses it, by RequestParams.Memory or because an RDMA device accesses
// its buffer; or data of a peer's put is arriving, and the refusal would drop the peer's
// connection. Both cases end with progress. A peer that never sends the rest holds the
// memory until its connection or the worker is closed.
func (m *Memory) Close() error {
	if m.missing() {
		return errMissing("Memory.Close", m == nil)
	}
	m.ctx.mu.Lock() // no key is packed meanwhile
	done := m.done.Swap(true)
	var err error
	if !done && m.region != nil {
		if err = m.inUse(); err != nil {
			m.done.Store(false)
		}
	}
	m.ctx.mu.Unlock()
	if done || err != nil || m.region == nil {
		return err
	}
	m.ctx.table.Remove(m.region)
	if m.owner >= 0 {
		if d, ok := m.ctx.mds[m.owner].md.(uct.MappedMemory); ok {
			d.Revoke(m.handles[m.owner])
		}
	}
	err = m.deregister()
	m.region.Close()
	return err
}

// inUse returns ucs.ErrBusy if an operation in flight uses the memory, or if a put of a peer is
// arriving in it.
func (m *Memory) inUse() error {
	if n := m.users.Load(); n > 0 {
		return fmt.Errorf("ucp: the memory is in use by %d operations in flight: %w", n, ucs.ErrBusy)
	}
	for i, h := range m.handles {
		if d, ok := m.ctx.mds[i].md.(uct.ScopedMemory); ok && h != nil && d.InUse(h) {
			return fmt.Errorf("ucp: a peer's put into the memory is in progress, over %s: %w", m.ctx.mds[i].md.Attr().Name, ucs.ErrBusy)
		}
	}
	return nil
}

// use counts an operation that uses the memory, and unuse the end of one. use returns false, and
// counts nothing, if the memory is closed.
func (m *Memory) use() bool {
	m.users.Add(1)
	if m.done.Load() {
		m.users.Add(-1)
		return false
	}
	return true
}

func (m *Memory) unuse() { m.users.Add(-1) }

// deregister removes the registrations in the domains that did not allocate the memory, and returns
// the first error.
func (m *Memory) deregister() error {
	var first error
	for i, h := range m.handles {
		if h == nil || i == m.owner {
			continue
		}
		if err := m.ctx.mds[i].md.Deregister(h); err != nil && first == nil {
			first = err
		}
		m.handles[i] = nil
	}
	for _, e := range m.scoped {
		if err := e.md.Deregister(e.mem); err != nil && first == nil {
			first = err
		}
	}
	m.scoped = nil
	return first
}

// free releases the memory: it frees or unmaps an allocation, and unpins memory of the caller. The
// region calls it once, when it is closed and no peer accesses the memory any more.
func (m *Memory) free() {
	if m.owner >= 0 {
		m.ctx.mds[m.owner].md.Deregister(m.handles[m.owner])
	}
	if m.mapped != nil {
		arena.Unmap(m.mapped)
	}
	if m.pin != nil {
		m.ctx.pins.Unpin(m.pin)
	}
	m.ctx.dropMemory(m)
}

// MemAdvice is a hint (enum ucp_mem_advice).
type MemAdvice uint8

// Hints for Memory.Advise, with C's numbers.
const (
	AdviceNormal   MemAdvice = 0 // no special treatment
	AdviceWillNeed MemAdvice = 1 // make the pages resident
)

// MemAdviseParams are the parameters of Memory.Advise.
type MemAdviseParams struct {
	Offset int // start of the part, in bytes from the start of the memory
	Length int // bytes
	Advice MemAdvice
}

// Advise gives a hint about a part of the memory. The hint may be ignored. A part outside
// the memory, an unknown hint, or memory that was unmapped gives ucs.ErrInvalidParam.
func (m *Memory) Advise(p MemAdviseParams) error {
	if m.missing() {
		return errMissing("Memory.Advise", m == nil)
	}
	m.ctx.mu.Lock()
	defer m.ctx.mu.Unlock()
	if err := m.live(); err != nil {
		return err
	}
	if p.Advice > AdviceWillNeed || p.Offset < 0 || p.Length < 0 || p.Offset > len(m.buf) || p.Length > len(m.buf)-p.Offset {
		return fmt.Errorf("ucp: Memory.Advise: advice %d for %d bytes at offset %d of %d: %w",
			p.Advice, p.Length, p.Offset, len(m.buf), ucs.ErrInvalidParam)
	}
	if m.mapped != nil && p.Advice == AdviceWillNeed {
		arena.WillNeed(m.mapped, p.Offset, p.Length)
	}
	return nil
}

// PackRkey returns the key that peers need to access the memory, for Endpoint.UnpackRkey or
// ucp_ep_rkey_unpack. The application passes it on. After Close it fails with
// ucs.ErrInvalidParam.
func (m *Memory) PackRkey() ([]byte, error) {
	if m.missing() {
		return nil, errMissing("Memory.PackRkey", m == nil)
	}
	m.ctx.mu.Lock()
	defer m.ctx.mu.Unlock()
	if err := m.live(); err != nil {
		return nil, err
	}
	k := proto.NewRkey(m.memType.Wire())
	for i, h := range m.handles {
		if h == nil || !m.packs(i) {
			continue
		}
		key, err := m.ctx.mds[i].md.AppendKey(nil, h)
		if errors.Is(err, ucs.ErrUnsupported) {
			continue // accesses are served by messages
		}
		if err != nil {
			return nil, err
		}
		if err := k.Add(uint8(i), key); err != nil {
			return nil, err
		}
	}
	return k.Append(nil), nil
}

// live returns ucs.ErrInvalidParam if the memory is closed.
func (m *Memory) live() error {
	if m.done.Load() {
		return fmt.Errorf("ucp: the memory is closed: %w", ucs.ErrInvalidParam)
	}
	return nil
}

// packs reports whether keys of the memory name the domain with index i. A domain that needs no key
// is not named: C UCX 1.22.0 does not unpack the empty key that 1.13.1 packs for tcp. A domain
// whose peers map the memory cannot enforce rights, so it is named only if peers have all remote
// rights; otherwise peers use messages, which are checked. Keys of memory that is limited to some
// peers name no domain, because a domain admits every holder of a key.
func (m *Memory) packs(i int) bool {
	const all = ProtRemoteRead | ProtRemoteWrite
	flags := m.ctx.mds[i].md.Attr().Flags
	return flags&uct.MDFlagNeedRkey != 0 && !m.limited && (flags&uct.MDFlagRkeyPtr == 0 || m.prot&all == all)
}

// covers reports whether the memory is open, belongs to ctx and contains the whole buffer p.
func (m *Memory) covers(ctx *Context, p *datatype.Payload) bool {
	if m.ctx != ctx || m.done.Load() {
		return false
	}
	if p.Class == datatype.Contig {
		return m.holds(p.Buf)
	}
	for _, b := range p.List {
		if !m.holds(b) {
			return false
		}
	}
	return true
}

// holds reports whether b lies within the memory.
func (m *Memory) holds(b []byte) bool { return within(m.buf, b) }

// within reports whether b lies within mem. An empty b always does.
func within(mem, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if len(b) > len(mem) {
		return false
	}
	at, base := word.Address(b), word.Address(mem)
	return at >= base && at-base <= uint64(len(mem)-len(b))
}

// WriteMemInfo allocates memory, prints where it was allocated and which domains registered
// it, and frees it (ucp_mem_print_info). spec is "<size>[,<type>]", for example "1m,host".
func (c *Context) WriteMemInfo(w io.Writer, spec string) error {
	if c.missing() {
		return errMissing("Context.WriteMemInfo", c == nil)
	}
	size, kind, _ := strings.Cut(spec, ",")
	var bytes config.Bytes
	if err := bytes.ParseConfig(size); err != nil {
		return fmt.Errorf("ucp: memory size %q: %w: %w", size, err, ucs.ErrInvalidParam)
	}
	n := bytes.Int(0)
	if n <= 0 {
		return fmt.Errorf("ucp: memory size %q: need more than 0 bytes: %w", size, ucs.ErrInvalidParam)
	}
	if kind != "" && kind != ucs.MemoryHost.String() {
		return fmt.Errorf("ucp: memory type %q: only host memory can be allocated: %w", kind, ucs.ErrInvalidParam)
	}
	m, err := c.MemMap(MemMapParams{Length: n, Flags: MemMapAllocate})
	if err != nil {
		return err
	}
	err = m.WriteInfo(w)
	if failed := m.Close(); err == nil {
		err = failed
	}
	return err
}

// WriteInfo prints the address of the memory, the domains that registered it and the length
// of its key, in the layout of ucx_info -m.
func (m *Memory) WriteInfo(w io.Writer) error {
	if m.missing() {
		return errMissing("Memory.WriteInfo", m == nil)
	}
	ew := errWriter{w: w}
	a := m.Attr()
	how := "registered"
	if m.method != "" {
		how = "allocated"
	}
	ew.printf("#\n# UCP memory allocation\n#\n")
	ew.printf("#  %s %v at address %#x", how, config.Bytes(a.Length), a.Address)
	if m.method != "" {
		ew.printf(" with %s", m.method)
	}
	smallest, largest := arena.PageSizes(m.buf)
	ew.printf(", pagesize: %v", config.Bytes(smallest))
	if smallest != largest {
		ew.printf("-%v", config.Bytes(largest))
	}
	ew.printf("\n#  registered on: ")
	for i, h := range m.handles {
		if h != nil {
			ew.printf("%s ", m.ctx.mds[i].md.Attr().Name)
		}
	}
	ew.printf("\n#\n")
	key, err := m.PackRkey()
	if err != nil {
		return err
	}
	ew.printf("#  rkey size: %d\n", len(key))
	return ew.err
}

// memoryRights is a worker's state for granting one peer access to memory, and no other peer.
type memoryRights struct {
	w       *Worker
	guards  guards
	scopers []scoper // domains that can distinguish peers

	delegated *call // the delegated call that is being carried out
}

// Allow gives the peer of an endpoint access to memory that was mapped for selected peers
// (MemMapParams.Peers). The peer may use any of its endpoints to this worker, until the application
// closes its last endpoint to the peer. Other memory gives ucs.ErrInvalidParam. Allow uses the
// endpoint's worker, so in the single-goroutine thread modes only the worker's goroutine may call
// it.
func (m *Memory) Allow(ep *Endpoint) error {
	if m.missing() {
		return errMissing("Memory.Allow", m == nil)
	}
	switch {
	case !m.limited || ep == nil || ep.w.ctx != m.ctx:
		return fmt.Errorf("ucp: Memory.Allow: endpoint: %w", ucs.ErrInvalidParam)
	case m.region == nil:
		return nil // an empty handle has no memory to access
	}
	ep.w.owner.acquireRead()
	defer ep.w.owner.releaseRead()
	if err := ep.usable(); err != nil {
		return err
	}
	if len(ep.lanes) == 0 {
		return ucs.ErrNotConnected // the endpoint is closed
	}
	m.ctx.mu.Lock()
	defer m.ctx.mu.Unlock()
	if err := m.live(); err != nil {
		return err
	}
	m.region.Admit(ep.w.rights.identity(ep))
	for k := range ep.w.rights.scopers {
		s := &ep.w.rights.scopers[k]
		md := ep.w.mds[s.md]
		a := md.Attr()
		if a.Flags&uct.MDFlagNeedRkey != 0 || a.Flags&uct.MDFlagRegister == 0 || uint64(len(m.buf)) > a.MaxReg {
			continue
		}
		mem, err := s.RegisterFor(m.buf, m.region.Access, ep.dest.scopes[k])
		if err != nil {
			return err
		}
		m.scoped = append(m.scoped, exposure{md: md, mem: mem})
	}
	return nil
}

// identity returns a value that stands for the endpoint's peer. It is the same for all endpoints of
// the peer.
func (mr *memoryRights) identity(ep *Endpoint) any {
	if ep.peer == nil {
		return ep.w // the worker itself
	}
	return ep.peer.Canonical()
}

// guard is a memory domain that lets peers access registered memory without a key.
type guard struct {
	md    uct.MemoryDomain
	scope int // index in memoryRights.scopers; -1 if any peer that knows the address is admitted
}

// scoper is a memory domain that can distinguish peers.
type scoper struct {
	uct.ScopedMemory
	md int // index of the domain in the context
}

// scopesOf returns the scopes of the peer with a worker address: one for each domain in
// memoryRights.scopers, nil if there are none.
func (mr *memoryRights) scopesOf(addr *proto.WorkerAddress) []uct.Scope {
	if len(mr.scopers) == 0 {
		return nil
	}
	list := make([]uct.Scope, len(mr.scopers))
	for k := range mr.scopers {
		list[k] = mr.scopers[k].Scope(mr.partOf(addr, mr.scopers[k].md))
	}
	return list
}

// partOf returns the entries of an address that belong to a domain's transports.
func (mr *memoryRights) partOf(addr *proto.WorkerAddress, md int) (list []uct.ReachableParams) {
	w := mr.w
	list = make([]uct.ReachableParams, 0, addr.NumIfaces())
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		if slices.ContainsFunc(w.ifaces, func(i *iface) bool { return i.md == md && i.id == f.Transport }) {
			list = append(list, uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr})
		}
		return true
	})
	return list
}

// errNoScope is the error for memory that cannot be opened to a peer because the domains cannot
// identify the peer.
var errNoScope = fmt.Errorf("ucp: the peer cannot be identified by its address: %w", ucs.ErrUnsupported)

// register registers buf for access by the peer of ep, and by no other peer if the domain can
// distinguish peers. It returns errNoScope if accesses could not be attributed to the peer.
func (g *guard) register(buf []byte, access uct.Access, ep *Endpoint) (uct.MemHandle, error) {
	if ep.dest != nil && ep.dest.reversePath || ep.state&epNoRemoteWrite != 0 {
		return nil, errNoScope
	}
	if g.scope < 0 || ep.dest == nil || g.scope >= len(ep.dest.scopes) {
		return g.md.Register(buf, access)
	}
	return ep.w.rights.scopers[g.scope].RegisterFor(buf, access, ep.dest.scopes[g.scope])
}

// checkOfferSource checks the connection src, over which the peer of ep has sent an offer. If src comes
// from an address that is not in the peer's worker address, writes over src are refused and end the
// connection. Most peers would write over the connection that carried the offer. checkOfferSource
// therefore sets epNoRemoteWrite, so that the peer is asked to send the data in messages.
func (mr *memoryRights) checkOfferSource(ep *Endpoint, src *uct.Source) {
	if src == nil || ep.state&epNoRemoteWrite != 0 || ep.dest == nil {
		return
	}
	for k, s := range ep.dest.scopes {
		if ep.w.rights.scopers[k].Excludes(s, src) {
			ep.state |= epNoRemoteWrite
		}
	}
}

// guards are the memory domains that let peers access memory without a key, but only registered
// memory. A peer chooses its lanes itself, so memory that is offered to the peer is registered with
// all of these domains.
type guards struct {
	put, get []guard
}

// guardedBy adds the domain of an interface to the guards, if the domain lets peers access
// registered memory without a key.
func (mr *memoryRights) guardedBy(i *iface) {
	w := mr.w
	md := w.mds[i.md]
	f := md.Attr().Flags
	if f&uct.MDFlagRegister == 0 || f&uct.MDFlagNeedRkey != 0 {
		return
	}
	g := guard{md: md, scope: mr.scoperOf(i.md)}
	if i.attr.Flags.Has(uct.IfacePutZcopy) && !slices.Contains(mr.guards.put, g) {
		mr.guards.put = append(mr.guards.put, g)
	}
	if i.attr.Flags.Has(uct.IfaceGetZcopy) && !slices.Contains(mr.guards.get, g) {
		mr.guards.get = append(mr.guards.get, g)
	}
}

// scoperOf returns the index of a domain in memoryRights.scopers, to which it adds the domain if
// necessary. It returns -1 if the domain cannot distinguish peers.
func (mr *memoryRights) scoperOf(md int) int {
	w := mr.w
	s, ok := w.mds[md].(uct.ScopedMemory)
	if !ok {
		return -1
	}
	if k := slices.IndexFunc(mr.scopers, func(s scoper) bool { return s.md == md }); k >= 0 {
		return k
	}
	mr.scopers = append(mr.scopers, scoper{ScopedMemory: s, md: md})
	return len(mr.scopers) - 1
}
