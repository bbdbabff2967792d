//go:build linux

package interop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/proto"
)

// The bytes that attackers send: the TCP transport (src/uct/tcp/tcp.h) and UCP, written by hand, so
// that they can be invalid.

var le = binary.LittleEndian

const (
	tcpMagic  = 0xCAFEBABE12345678
	tcpHeader = 5
	tcpCM     = 32 // connection management; the ids below are active messages
	tcpPut    = 33
)

// tcpSockaddr is a struct sockaddr_in.
func tcpSockaddr(a netip.AddrPort) []byte {
	b := make([]byte, 16)
	le.PutUint16(b, unix.AF_INET)
	binary.BigEndian.PutUint16(b[2:], a.Port())
	copy(b[4:], a.Addr().AsSlice())
	return b
}

// tcpFrame returns a frame of the stream.
func tcpFrame(id byte, payload ...[]byte) []byte {
	b := append(make([]byte, 0, 64), id, 0, 0, 0, 0)
	for _, p := range payload {
		b = append(b, p...)
	}
	le.PutUint32(b[1:], uint32(len(b)-tcpHeader))
	return b
}

// tcpHello returns the first bytes of a connection, which name the sender by its listener.
func tcpHello(claim netip.AddrPort, sn uint64) []byte {
	b := le.AppendUint64(nil, tcpMagic)
	req := make([]byte, 13)
	req[0] = 1 // connection request
	le.PutUint64(req[5:], sn)
	return append(b, tcpFrame(tcpCM, req, tcpSockaddr(claim))...)
}

// tcpPutHeader announces a put of n bytes to an address.
func tcpPutHeader(addr uint64, n int, sn uint32) []byte {
	b := le.AppendUint64(nil, addr)
	b = le.AppendUint64(b, uint64(n))
	return tcpFrame(tcpPut, le.AppendUint32(b, sn))
}

// wireAddress returns the address of a worker that does not exist: one device, with a listener over
// tcp.
func wireAddress(uuid uint64, listener netip.AddrPort, attr proto.IfaceAttr) proto.WorkerAddress {
	port := binary.BigEndian.AppendUint16(nil, listener.Port())
	return proto.WorkerAddress{
		Flags: proto.AddressHasUUID,
		UUID:  uuid,
		Devices: []proto.AddressDevice{{
			NumPaths: 1,
			SysDev:   proto.SysDevUnknown,
			Addr:     append([]byte{0, unix.AF_INET}, listener.Addr().AsSlice()...),
			Ifaces:   []proto.AddressIface{{Transport: tcpTransport, Attr: attr, Addr: port}},
		}},
	}
}

// tcpTransport is the id of the transport in addresses.
var tcpTransport = proto.TransportIDOf("tcp")

// tcpAttr returns the attributes of tcp in a worker address.
func tcpAttr(address []byte) (proto.IfaceAttr, error) {
	a, _, err := proto.ParseAddress(address, proto.FormWorker)
	if err != nil {
		return proto.IfaceAttr{}, err
	}
	for _, d := range a.Devices {
		for _, i := range d.Ifaces {
			if i.Transport == tcpTransport {
				return i.Attr, nil
			}
		}
	}
	return proto.IfaceAttr{}, errors.New("no tcp in the address")
}

// stranger is a connection of an attacker.
type stranger struct {
	net.Conn
	own  netip.AddrPort // the listener that it claims
	peer proto.EndpointID
}

// dial connects from an address and sends nothing.
func dial(target string, from netip.Addr) (*stranger, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: 5 * time.Second}
	c, err := d.Dial("tcp", target)
	if err != nil {
		return nil, err
	}
	// A server that does not answer must not block an attack.
	return &stranger{Conn: c}, c.SetDeadline(time.Now().Add(time.Minute))
}

// knock connects and sends a connection request.
func knock(target string, from netip.Addr, claim netip.AddrPort, sn uint64) (*stranger, error) {
	s, err := dial(target, from)
	if err != nil {
		return nil, err
	}
	s.own = claim
	if _, err := s.Write(tcpHello(claim, sn)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// freshClaim returns a different listener each time, at an address of the attacker: the server
// would take two equal ones for one peer.
func freshClaim(from netip.Addr) netip.AddrPort {
	return netip.AddrPortFrom(from, uint16(1024+claims.Add(1)%60000))
}

var claims atomic.Uint32

// say sends an active message.
func (s *stranger) say(id proto.AMID, payload ...[]byte) error {
	_, err := s.Write(tcpFrame(byte(id), payload...))
	return err
}

// wireup requests an endpoint and waits for its id.
func (s *stranger) wireup(uuid uint64, addr proto.WorkerAddress) error {
	addr.UUID = uuid
	m := proto.Wireup{Type: proto.WireupRequest, SrcEp: proto.EndpointID(rand.Uint64() | 1), Address: addr}
	b, err := m.Append(nil)
	if err != nil {
		return err
	}
	if err := s.say(proto.IDWireup, b); err != nil {
		return err
	}
	s.SetReadDeadline(time.Now().Add(2 * time.Second))
	for {
		id, payload, err := s.hear()
		if err != nil {
			return err
		}
		if id != byte(proto.IDWireup) {
			continue
		}
		reply, err := proto.ParseWireup(payload)
		if err != nil {
			return err
		}
		if reply.Type == proto.WireupReply {
			s.peer = reply.SrcEp
			return nil
		}
	}
}

// hear reads a frame. It acknowledges a request to receive on this connection.
func (s *stranger) hear() (id byte, payload []byte, err error) {
	for {
		var h [tcpHeader]byte
		if _, err := io.ReadFull(s, h[:]); err != nil {
			return 0, nil, err
		}
		n := le.Uint32(h[1:])
		if n > 1<<20 {
			return 0, nil, fmt.Errorf("a frame of %d bytes", n)
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(s, payload); err != nil {
			return 0, nil, err
		}
		if h[0] != tcpCM {
			return h[0], payload, nil
		}
		if n > 4 && le.Uint32(payload) == 1 { // a connection request: acknowledge it
			if _, err := s.Write(tcpFrame(tcpCM, le.AppendUint32(nil, 2))); err != nil {
				return 0, nil, err
			}
		}
	}
}

// refused reports whether an error means that the server has closed, or not accepted, an attacker's
// connection.
func refused(err error) bool {
	var ne net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) ||
		errors.Is(err, unix.ECONNREFUSED) || errors.As(err, &ne) && ne.Timeout()
}
