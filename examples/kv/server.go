package main

import (
	"encoding/binary"
	"net/netip"

	"github.com/ucx-go/ucx/ucp"
)

// Ids of active messages: a client asks where the table is, and is told. The header of the
// answer is a place, its data the packed key of the memory.
const (
	idWhere = 1
	idHere  = 2
)

// place is where a table is in the server's memory.
type place struct {
	addr  uint64
	slots uint64
}

func (p place) bytes() []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, p.addr), p.slots)
}

func parsePlace(b []byte) (p place, ok bool) {
	if len(b) != 16 {
		return place{}, false
	}
	p = place{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
	return p, p.slots > 0
}

// tableSlots is how many keys the table has room for.
const tableSlots = 1 << 12

// server has a table.
type server struct {
	shared
	listener *ucp.Listener
	table    *ucp.Memory
	where    place
	key      []byte // packed
}

func newServer(addr netip.AddrPort, slots uint64) (*server, error) {
	w, err := open()
	if err != nil {
		return nil, err
	}
	s := &server{shared: w}
	if err := s.open(addr, slots); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *server) open(addr netip.AddrPort, slots uint64) (err error) {
	// What Alloc gives is zero, and clients of this machine map it.
	if s.table, err = s.context.Alloc(int(slots*slotSize), ucp.ProtAll); err != nil {
		return err
	}
	if s.key, err = s.table.PackRkey(); err != nil {
		return err
	}
	s.where = place{s.table.Attr().Address, slots}
	if err = s.worker.SetAMHandler(ucp.AMHandlerParams{ID: idWhere, Handler: s.tell}); err != nil {
		return err
	}
	s.listener, err = s.worker.NewListener(ucp.ListenerParams{Addr: addr, OnAccept: accepted})
	return err
}

// accepted is given the endpoint to each client. It lasts until the client leaves.
func accepted(ep *ucp.Endpoint) {
	ep.SetErrorHandler(func(ep *ucp.Endpoint, _ error, _ any) { ep.Close() })
}

// tell tells a client where the table is.
func (s *server) tell(m *ucp.AMMessage) error {
	if client := m.Reply(); client != nil {
		r, err := client.AMSend(idHere, s.where.bytes(), s.key, nil)
		if err != nil {
			return err
		}
		r.Free() // nobody waits for it
	}
	return nil
}

func (s *server) addr() netip.AddrPort { return s.listener.Addr() }

func (s *server) close() {
	s.worker.Close()
	if s.table != nil {
		s.table.Close()
	}
	s.context.Close()
}
