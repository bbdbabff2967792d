//go:build linux

package rdmacmtest

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
)

// serve answers a command. Lock held.
func (f *file) serve(cmd uint32, in, data []byte) syscall.Errno {
	switch cmd {
	case cmabi.RDMA_USER_CM_CMD_GET_EVENT:
		return f.getEvent(data)
	case cmabi.RDMA_USER_CM_CMD_CREATE_ID:
		return f.createID(load[cmabi.CreateId](in), data)
	case cmabi.RDMA_USER_CM_CMD_MIGRATE_ID:
		return f.migrate(load[cmabi.MigrateId](in), data)
	case cmabi.RDMA_USER_CM_CMD_LEAVE_MCAST:
		return f.leave(load[cmabi.DestroyId](in), data)
	}
	i, errno := f.find(handleOf(cmd, in))
	if errno != 0 {
		return errno
	}
	switch cmd {
	case cmabi.RDMA_USER_CM_CMD_DESTROY_ID:
		i.destroy()
		store(data, cmabi.DestroyIdResp{EventsReported: i.reported})
		return 0
	case cmabi.RDMA_USER_CM_CMD_BIND:
		c := load[cmabi.Bind](in)
		return i.bind(sockaddr(c.Addr[:min(c.AddrSize, 128)]))
	case cmabi.RDMA_USER_CM_CMD_RESOLVE_ADDR:
		c := load[cmabi.ResolveAddr](in)
		return i.resolve(sockaddr(c.SrcAddr[:min(c.SrcSize, 128)]), sockaddr(c.DstAddr[:min(c.DstSize, 128)]))
	case cmabi.RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		return i.advance(stateAddr, stateRoute, cmabi.RDMA_CM_EVENT_ROUTE_RESOLVED)
	case cmabi.RDMA_USER_CM_CMD_LISTEN:
		return i.listen(load[cmabi.Listen](in).Backlog)
	case cmabi.RDMA_USER_CM_CMD_CONNECT:
		c := load[cmabi.Connect](in)
		return i.connect(&c.ConnParam)
	case cmabi.RDMA_USER_CM_CMD_ACCEPT:
		c := load[cmabi.Accept](in)
		if c.ConnParam.Valid == 0 {
			return i.establish()
		}
		return i.accept(c.Uid, &c.ConnParam)
	case cmabi.RDMA_USER_CM_CMD_REJECT:
		return i.reject(load[cmabi.Reject](in))
	case cmabi.RDMA_USER_CM_CMD_DISCONNECT:
		return i.disconnect()
	case cmabi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		return i.initQPAttr(load[cmabi.InitQpAttr](in).QpState, data)
	case cmabi.RDMA_USER_CM_CMD_QUERY:
		return i.queryAddr(data)
	case cmabi.RDMA_USER_CM_CMD_QUERY_ROUTE:
		return i.queryRoute(data)
	case cmabi.RDMA_USER_CM_CMD_SET_OPTION:
		return i.setOption(load[cmabi.SetOption](in), data)
	case cmabi.RDMA_USER_CM_CMD_NOTIFY:
		return i.notify()
	case cmabi.RDMA_USER_CM_CMD_JOIN_MCAST:
		return i.join(load[cmabi.JoinMcast](in), data)
	}
	return syscall.ENOSYS
}

// handleOf returns the handle of the ID that a request names.
func handleOf(cmd uint32, in []byte) uint32 {
	field, _ := cmabi.Lookup(cmd).In.FieldByName("Id")
	return binary.NativeEndian.Uint32(in[field.Offset:])
}

// find returns the ID of a handle.
func (f *file) find(handle uint32) (*id, syscall.Errno) {
	i := f.k.ids[handle]
	switch {
	case i == nil:
		return nil, syscall.ENOENT
	case i.f != f:
		return nil, syscall.EINVAL
	}
	return i, 0
}

func (f *file) getEvent(data []byte) syscall.Errno {
	e := f.queue[0]
	f.setQueue(f.queue[1:])
	e.id.reported++
	if e.request != nil {
		e.id.backlog++
	}
	if f.k.alter != nil {
		f.k.alter(&e.resp)
	}
	store(data, e.resp)
	return 0
}

func (f *file) createID(c cmabi.CreateId, data []byte) syscall.Errno {
	typ := c.QpType
	switch c.Ps {
	case cmabi.RDMA_PS_TCP:
		typ = abi.IB_UVERBS_QPT_RC
	case cmabi.RDMA_PS_UDP, cmabi.RDMA_PS_IPOIB:
		typ = abi.IB_UVERBS_QPT_UD
	case cmabi.RDMA_PS_IB:
	default:
		return syscall.EINVAL
	}
	i := f.newID(c.Uid, c.Ps, typ)
	store(data, cmabi.CreateIdResp{Id: i.handle})
	return 0
}

func (f *file) newID(uid uint64, ps uint16, typ uint8) *id {
	i := &id{f: f, handle: f.k.next, uid: uid, ps: ps, typ: typ, psn: f.k.next * 0x1111 & 0xffffff}
	f.k.next++
	f.k.ids[i.handle] = i
	return i
}

// migrate moves an ID to f. Like the kernel it wakes no waiter, but the descriptor becomes readable
// for poll.
func (f *file) migrate(c cmabi.MigrateId, data []byte) syscall.Errno {
	from := f.k.files[int(c.Fd)]
	if from == nil {
		return syscall.ENOENT
	}
	i, errno := from.find(c.Id)
	if errno != 0 {
		return errno
	}
	moved := from.drop(func(e *event) bool { return e.id == i })
	i.f = f
	for _, e := range moved {
		f.push(e)
	}
	store(data, cmabi.MigrateResp{EventsReported: i.reported})
	return 0
}

func (i *id) setOption(c cmabi.SetOption, data []byte) syscall.Errno {
	if c.Level != cmabi.RDMA_OPTION_ID {
		return syscall.ENOSYS
	}
	want := 4
	if c.Optname == cmabi.RDMA_OPTION_ID_TOS || c.Optname == cmabi.RDMA_OPTION_ID_ACK_TIMEOUT {
		want = 1
	}
	if int(c.Optlen) != want || len(data) != want {
		return syscall.EINVAL
	}
	switch c.Optname {
	case cmabi.RDMA_OPTION_ID_TOS:
		i.tos = data[0]
	case cmabi.RDMA_OPTION_ID_ACK_TIMEOUT:
		i.timeout = data[0]
	case cmabi.RDMA_OPTION_ID_REUSEADDR:
		i.reuse = binary.NativeEndian.Uint32(data) != 0
	case cmabi.RDMA_OPTION_ID_AFONLY:
	default:
		return syscall.ENOSYS
	}
	return 0
}

// group is a multicast membership.
type group struct {
	i      *id
	handle uint32
	uid    uint64
}

func (i *id) join(c cmabi.JoinMcast, data []byte) syscall.Errno {
	addr := sockaddr(c.Addr[:min(c.AddrSize, 128)]).Addr()
	if !i.device() || !addr.IsMulticast() {
		return syscall.EINVAL
	}
	g := &group{i: i, handle: i.f.k.next, uid: c.Uid}
	i.f.k.next++
	i.f.k.groups[g.handle] = g
	e := &event{id: i, group: g, resp: cmabi.EventResp{Uid: g.uid, Id: g.handle, Event: cmabi.RDMA_CM_EVENT_MULTICAST_JOIN}}
	p := cmabi.UdParam{QpNum: 0xffffff, Qkey: qkey, AhAttr: ahTo(i.src.Addr(), addr.As16())}
	copy(e.resp.Param[:], cmabi.Bytes(&p))
	i.f.push(e)
	store(data, cmabi.CreateIdResp{Id: g.handle})
	return 0
}

func (f *file) leave(c cmabi.DestroyId, data []byte) syscall.Errno {
	g := f.k.groups[c.Id]
	if g == nil {
		return syscall.ENOENT
	}
	if g.i.f != f {
		return syscall.EINVAL
	}
	f.drop(func(e *event) bool { return e.group == g })
	delete(f.k.groups, g.handle)
	store(data, cmabi.DestroyIdResp{})
	return 0
}

// sockaddr reads an address, invalid if there is none.
func sockaddr(b []byte) netip.AddrPort {
	switch {
	case len(b) == unix.SizeofSockaddrInet4 && binary.NativeEndian.Uint16(b) == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case len(b) == unix.SizeofSockaddrInet6 && binary.NativeEndian.Uint16(b) == unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[2:]))
	}
	return netip.AddrPort{}
}

// putSockaddr writes an address and returns its size.
func putSockaddr(b []byte, a netip.AddrPort) uint16 {
	switch {
	case !a.IsValid():
		return 0
	case a.Addr().Is4():
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		copy(b[4:], a.Addr().AsSlice())
		return unix.SizeofSockaddrInet4
	}
	binary.NativeEndian.PutUint16(b, unix.AF_INET6)
	binary.BigEndian.PutUint16(b[2:], a.Port())
	copy(b[8:], a.Addr().AsSlice())
	return unix.SizeofSockaddrInet6
}

// bigEndian64 converts between native and big-endian byte order.
func bigEndian64(v uint64) uint64 {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return v
	}
	return bits.ReverseBytes64(v)
}
