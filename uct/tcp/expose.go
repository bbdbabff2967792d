//go:build linux

package tcp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// region is memory registered with the domain. A region that peers may write to is in the
// table of exposed memory while it is registered.
type region struct {
	buf    []byte
	base   uint64         // address of the first byte
	pinner runtime.Pinner // keeps Go memory in place
	remote bool           // peers may write
	scope  *scope         // the peer that may write; nil: every peer may
	live   bool           // registered; guarded by the table's mu

	arriving atomic.Int32 // puts whose first part has arrived and whose rest has not

	prev, next *region // in the list of live regions; guarded by the table's mu

	// use holds the generation in the upper bits, then the open bit, then the number of
	// writers. Generations count the registrations of the table. So a put that began before
	// its region was recycled cannot continue in the next registration.
	use atomic.Uint64
}

// Layout of region.use.
const (
	useOpen  = 1 << 16
	useCount = useOpen - 1
	useGen   = useOpen << 1 // adds one generation
)

// Bytes implements uct.MemHandle.
func (r *region) Bytes() []byte { return r.buf }

// acquire keeps the memory from being deregistered until release. It fails if the memory is
// deregistered already, if its generation is later than since, or if it has as many writers as
// can be counted. Any goroutine may call it.
func (r *region) acquire(since uint64) bool {
	for {
		u := r.use.Load()
		if u&useOpen == 0 || u/useGen > since || u&useCount == useCount {
			return false
		}
		if r.use.CompareAndSwap(u, u+1) {
			return true
		}
	}
}

func (r *region) release() { r.use.Add(^uint64(0)) }

// open starts generation gen of the region. Writers may acquire the region from then on.
func (r *region) open(gen uint64) { r.use.Store(gen*useGen | useOpen) }

// revoke refuses further writers and waits for the writers that are copying. A writer holds
// the region for one system call at most.
func (r *region) revoke() {
	r.use.And(^uint64(useOpen))
	for r.use.Load()&useCount != 0 {
		runtime.Gosched()
	}
}

// exposedTable holds the regions of a domain. add, remove, abandon and find may be called from
// any goroutine; after and updateReach need mu.
type exposedTable struct {
	mu      sync.Mutex
	regions []*region // exposed regions, sorted by address; guarded by mu
	reach   []uint64  // reach[i] is the largest end in regions[:i+1]; guarded by mu
	spare   []*region // deregistered regions, to be reused; guarded by mu
	live    int       // number of live regions; guarded by mu
	gen     uint64    // generation of the last registration; guarded by mu
	head    *region   // head of the list of live regions; guarded by mu
}

// maxSpare bounds the number of regions kept for reuse.
const maxSpare = 1024

// add registers buf. If remote is set, buf is exposed to the peer of scope s, or to every peer
// if s is nil. In steady state add allocates nothing.
func (t *exposedTable) add(buf []byte, remote bool, s *scope) *region {
	t.mu.Lock()
	defer t.mu.Unlock()
	var r *region
	if n := len(t.spare); n > 0 {
		r = t.spare[n-1]
		t.spare = t.spare[:n-1]
	} else {
		r = new(region)
	}
	r.buf, r.remote, r.live, r.scope = buf, remote && len(buf) > 0, true, s
	t.live++
	if r.next = t.head; r.next != nil {
		r.next.prev = r
	}
	t.head = r
	if len(buf) == 0 {
		return r
	}
	r.pinner.Pin(&buf[0])
	r.base = addressOf(buf)
	t.gen++
	r.open(t.gen)
	if r.remote {
		at := t.after(r.base)
		t.regions = slices.Insert(t.regions, at, r)
		t.reach = slices.Insert(t.reach, at, 0)
		t.updateReach(at)
	}
	return r
}

// remove ends a registration. When remove returns, no peer writes to the memory any more. A
// region that is not registered is an error.
func (t *exposedTable) remove(r *region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !r.live {
		return fmt.Errorf("tcp: memory is not registered: %w", ucs.ErrInvalidParam)
	}
	r.live = false
	t.live--
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		t.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	if r.remote {
		at := slices.Index(t.regions, r)
		t.regions = slices.Delete(t.regions, at, at+1)
		t.reach = slices.Delete(t.reach, at, at+1)
		t.updateReach(at)
	}
	r.revoke()
	r.pinner.Unpin()
	r.buf, r.scope = nil, nil
	if len(t.spare) < maxSpare && r.arriving.Load() == 0 {
		t.spare = append(t.spare, r)
	}
	return nil
}

// abandon unpins the memory that was never deregistered, because the runtime ends the program
// when a pinner that still pins memory is collected.
func (t *exposedTable) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := t.head; r != nil; r = r.next {
		r.pinner.Unpin()
	}
}

// anyGen is later than every registration.
const anyGen = ^uint64(0)

// find returns a region that holds the n bytes at addr, is exposed to the peer of c, and has
// generation since or an earlier one. at is the offset of addr in the region, and gen is the
// generation of the last registration. r is nil if there is no such region.
func (t *exposedTable) find(c *conn, addr, n, since uint64) (r *region, at int, gen uint64) {
	end := addr + n
	if end < addr {
		return nil, 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := t.after(addr) - 1; i >= 0 && t.reach[i] >= end; i-- {
		if r := t.regions[i]; r.base+uint64(len(r.buf)) >= end && r.use.Load()/useGen <= since &&
			(r.scope == nil || r.scope.admits(c)) {
			return r, int(addr - r.base), t.gen
		}
	}
	return nil, 0, 0
}

// after returns the index of the first region that starts after addr.
func (t *exposedTable) after(addr uint64) int {
	at, _ := slices.BinarySearchFunc(t.regions, addr, func(r *region, addr uint64) int {
		if r.base <= addr {
			return -1
		}
		return 1
	})
	return at
}

// updateReach recomputes reach from index i on.
func (t *exposedTable) updateReach(i int) {
	last := uint64(0)
	if i > 0 {
		last = t.reach[i-1]
	}
	for ; i < len(t.regions); i++ {
		r := t.regions[i]
		last = max(last, r.base+uint64(len(r.buf)))
		t.reach[i] = last
	}
}

var _ uct.MemHandle = (*region)(nil)

// Endpoints can also be connected pairwise (CONNECT_TO_EP): each side makes an endpoint and
// publishes its key, a number that the side chooses. The side whose listener has the smaller
// address connects and sends the other side's key; the other side waits. The key identifies the
// endpoint, so the request is not answered. Between two endpoints of one iface neither address is
// smaller: the endpoint whose ConnectToEP is called first connects, and marks the other one, which
// the iface finds by its key, as waiting. An endpoint that is connected with itself has two
// connections, one in each direction.

// addKey gives an endpoint a key. A process that knows the key is regarded as the peer, so the key
// is random; C UCX counts its keys, which can be guessed. The key is odd like those of C UCX,
// although peers do not depend on that.
func (i *iface) addKey(ep *endpoint) {
	for ep.key = 0; ep.key == 0 || i.keys[ep.key] != nil; {
		ep.key = rand.Uint64() | 1
	}
	ep.toEP = true
	i.keys[ep.key] = ep
}

// removeKey removes the key of an endpoint that still waits for its peer.
func (i *iface) removeKey(ep *endpoint) {
	if i.keys[ep.key] == ep {
		delete(i.keys, ep.key)
	}
}

// Address implements uct.Endpoint: the listener's port and the endpoint's key. After ConnectToEP it
// is instead the key of the connection, the key of the side that waited, as in C UCX
// (uct_tcp_ep_connect_to_ep_v2). Both sides then have the same key.
func (ep *endpoint) Address() ([]byte, error) {
	if !ep.toEP {
		return nil, fmt.Errorf("tcp: the endpoint was made for one peer: %w", ucs.ErrUnsupported)
	}
	key := ep.key
	if ep.peer != (sockaddr{}) {
		key = ep.sn
	}
	b := binary.BigEndian.AppendUint16(nil, ep.iface.addr.port)
	return le.AppendUint64(b, key), nil
}

// ConnectToEP implements uct.Endpoint.
func (ep *endpoint) ConnectToEP(dev, iface, addr []byte) error {
	if ep.err != nil {
		return ep.err
	}
	if !ep.iface.attr.Flags.Has(uct.IfaceConnectToEP) {
		return ucs.ErrUnsupported
	}
	if !ep.toEP || len(addr) != epAddrLen {
		return fmt.Errorf("tcp: endpoint address of %d bytes: %w", len(addr), ucs.ErrInvalidParam)
	}
	if len(iface) > 0 && !bytes.Equal(addr[:ifaceAddrLen], iface) { // addr begins with the port of the listener
		return fmt.Errorf("tcp: the endpoint address %x does not belong to the interface %x: %w", addr, iface, ucs.ErrInvalidAddr)
	}
	d, peer, err := parseListener(dev, addr[:ifaceAddrLen])
	if err != nil {
		return err
	}
	if d.v6 != ep.iface.addr.v6 {
		return ep.iface.errOtherFamily(peer)
	}
	key := le.Uint64(addr[ifaceAddrLen:])
	if peer == ep.iface.addr {
		ep.connectWithin(key)
		return nil
	}
	ep.peer, ep.sn = peer, ep.key
	if ep.conn != nil {
		return nil // the peer has connected already
	}
	if peer.compare(&ep.iface.addr) < 0 {
		return nil // the peer connects
	}
	ep.iface.removeKey(ep)
	ep.sn = key
	ep.connect()
	return nil
}

// connectWithin connects the endpoint with the endpoint of the same iface that has the given key,
// unless the other endpoint is connecting already. In that case the key of the connection is this
// endpoint's own key.
func (ep *endpoint) connectWithin(key uint64) {
	i := ep.iface
	if ep.peer == i.addr {
		return // the other endpoint, whose ConnectToEP was called first, connects
	}
	if ep.conn != nil { // from a peer that knows the key and claims another listener
		ep.peer, ep.sn = i.addr, ep.key
		return
	}
	ep.peer, ep.sn = i.addr, key
	other := i.keys[key]
	if other != ep {
		i.removeKey(ep)
	}
	if other != nil && other.peer == (sockaddr{}) {
		other.peer, other.sn = i.addr, key
	}
	ep.connect()
}

// IsConnectedTo implements uct.Paired.
func (ep *endpoint) IsConnectedTo(dev, iface, addr []byte) bool {
	_, peer, err := parseListener(dev, iface)
	if err != nil || peer != ep.peer {
		return false
	}
	return addr == nil || ep.toEP && len(addr) == epAddrLen && le.Uint64(addr[ifaceAddrLen:]) == ep.sn
}

// acceptKey gives the connection to the endpoint whose key the connection's request names, or
// closes the connection if there is none.
func (c *conn) acceptKey() {
	ep := c.iface.keys[c.sn]
	if ep == nil {
		c.close()
		return
	}
	c.iface.removeKey(ep)
	c.toEP, c.rx = true, true
	if ep.conn != nil {
		c.state = stateConnected // the endpoint sends on its own connection
		return
	}
	c.ep, ep.conn, ep.peer, ep.sn = ep, c, c.peer, ep.key
	c.taken(ep)
	ep.connected()
}

// scope identifies a peer by the addresses that the peer has published.
type scope struct {
	listeners []sockaddr
	ips       []netip.Addr

	// Arrays for the usual case of one listener, which save allocations.
	listener [1]sockaddr
	ip       [1]netip.Addr
}

// newScope returns the scope of a peer. Addresses that cannot be parsed are skipped.
func newScope(peer []uct.ReachableParams) *scope {
	s := new(scope)
	s.listeners, s.ips = s.listener[:0], s.ip[:0]
	for _, p := range peer {
		_, listener, err := parseListener(p.DeviceAddr, p.IfaceAddr)
		if err != nil {
			continue
		}
		if !slices.Contains(s.listeners, listener) {
			s.listeners = append(s.listeners, listener)
		}
		if ip := listener.addrPort().Addr(); !slices.Contains(s.ips, ip) {
			s.ips = append(s.ips, ip)
		}
	}
	return s
}

// identify determines the owner of a connection within the machine, for the method admits. It is
// called before the table of exposed memory is locked, because it may query the kernel.
func (c *conn) identify() {
	if c.ep == nil && !c.outgoing && c.mayBeHere() {
		c.claimOwner()
	}
}

// admits reports whether a connection belongs to the peer. The connection must name a listener of
// the peer. In addition either an endpoint of this side sends on it to that listener, or this side
// made it, or it comes from an address of the peer and, within the machine, from a process of the
// user who owns the listener. If the kernel does not report the owners of sockets, the address is
// sufficient; if the kernel could not tell just now, the address is not sufficient.
func (s *scope) admits(c *conn) bool {
	if !slices.Contains(s.listeners, c.peer) {
		return false
	}
	if c.ep != nil && !c.ep.answersOnly || c.outgoing {
		return true
	}
	return slices.Contains(s.ips, c.from.addr.Addr().WithZone("")) && c.owner != ownerOther && c.owner != ownerUnsure
}
