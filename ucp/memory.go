package ucp

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/proto"
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

	region *regions.Region // nil for an empty handle
	mapped []byte          // unmapped by free
	pin    *runtime.Pinner
	done   atomic.Bool  // set under ctx.mu
	users  atomic.Int32 // operations in flight with RequestParams.Memory, or whose buffer an RDMA device sends
}

// MemAttr describes a Memory.
type MemAttr struct {
	Address    uint64 // of the first byte, as peers name it
	Length     int    // bytes; an allocation may be longer than requested
	MemoryType ucs.MemoryType
}

// Attr describes the memory.
func (m *Memory) Attr() MemAttr {
	a := MemAttr{Length: len(m.buf), MemoryType: m.memType}
	if len(m.buf) > 0 {
		a.Address = memoryAddress(m.buf)
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
// operation in flight uses it, by RequestParams.Memory or because its buffer is sent by an
// RDMA device; or data of a peer's put is arriving, and the refusal would drop the peer's
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
		if d, ok := m.ctx.mds[m.owner].md.(uct.Revoker); ok {
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
		if d, ok := m.ctx.mds[i].md.(uct.UseReporter); ok && h != nil && d.InUse(h) {
			return fmt.Errorf("ucp: a put of a peer is arriving in the memory, over %s: %w", m.ctx.mds[i].md.Attr().Name, ucs.ErrBusy)
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

// free releases the memory: it frees or unmaps an allocation, and unpins memory of the caller. No
// peer may access the memory any more.
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

// Hints, with C's numbers.
const (
	AdviceNormal   MemAdvice = 0 // no special treatment
	AdviceWillNeed MemAdvice = 1 // make the pages resident
)

// MemAdviseParams are the parameters of Memory.Advise.
type MemAdviseParams struct {
	Offset int // of the part, within the memory
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

// covers reports whether the memory holds all of an operation's buffer.
func (m *Memory) covers(ctx *Context, p *payload) bool {
	if m.ctx != ctx || m.done.Load() {
		return false
	}
	if p.class == DatatypeContig {
		return m.holds(p.buf)
	}
	for _, b := range p.list {
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
	at, base := memoryAddress(b), memoryAddress(mem)
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
