package main

import (
	"encoding/binary"
	"net/netip"

	"github.com/ucx-go/ucx/ucp"
)

// Ids of active messages: a client requests the location of the table, and the server answers. The
// header of the answer is a place, and its data the packed key of the memory.
const (
	idWhere = 1
	idHere  = 2
)

// tableLocation is the location of a table in the server's memory.
type tableLocation struct {
	addr  uint64
	slots uint64
}

func (p tableLocation) bytes() []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, p.addr), p.slots)
}

func parsePlace(b []byte) (p tableLocation, ok bool) {
	if len(b) != 16 {
		return tableLocation{}, false
	}
	p = tableLocation{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
	return p, p.slots > 0
}

// tableSlots is the number of slots of the table, each with room for one key.
const tableSlots = 1 << 12

// server holds a table.
type server struct {
	shared
	listener *ucp.Listener
	table    *ucp.Memory
	where    tableLocation
	key      []byte // packed remote key of the table
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
	// Memory from Alloc is zero, and clients on this machine map it.
	if s.table, err = s.context.Alloc(int(slots*slotSize), ucp.ProtAll); err != nil {
		return err
	}
	if s.key, err = s.table.PackRkey(); err != nil {
		return err
	}
	s.where = tableLocation{s.table.Attr().Address, slots}
	if err = s.worker.SetAMHandler(ucp.AMHandlerParams{ID: idWhere, Handler: s.sendLocation}); err != nil {
		return err
	}
	s.listener, err = s.worker.NewListener(ucp.ListenerParams{Addr: addr, OnAccept: accepted})
	return err
}

// accepted is called with the endpoint to each client. The endpoint is closed when the client
// disconnects.
func accepted(ep *ucp.Endpoint) {
	ep.SetErrorHandler(func(ep *ucp.Endpoint, _ error, _ any) { ep.Close() })
}

// sendLocation answers a client's request for the location of the table.
func (s *server) sendLocation(m *ucp.AMMessage) error {
	if client := m.Reply(); client != nil {
		r, err := client.AMSend(idHere, s.where.bytes(), s.key, nil)
		if err != nil {
			return err
		}
		r.Free() // the send goes on without the request
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
