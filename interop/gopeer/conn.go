package main

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"github.com/ucx-go/ucx/ucp"
)

// The commands for listeners and connections by socket address.
func init() {
	maps.Copy(commands, map[string]command{
		"listen":   {1, (*server).listen},
		"unlisten": {0, (*server).unlisten},
		"dial":     {4, (*server).dial},
		"client":   {1, (*server).client},
		"accept":   {2, (*server).accept},
		"reject":   {0, (*server).reject},
		"sockets":  {1, (*server).sockets},
	})
}

// clients holds the clients that wait for the commands accept and reject.
type clients struct {
	listener *ucp.Listener
	waiting  []*ucp.ConnRequest
	current  *ucp.ConnRequest // client that the last client command has taken
}

// listen runs the command "listen ADDRESS:PORT", which opens a listener and returns its address.
func (s *server) listen(args []string) (string, error) {
	c := &s.clients
	if c.listener != nil {
		return "", errors.New("there is a listener")
	}
	addr, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return "", err
	}
	l, err := s.worker().NewListener(ucp.ListenerParams{
		Addr:          addr,
		OnConnRequest: func(r *ucp.ConnRequest) { c.waiting = append(c.waiting, r) },
	})
	if err != nil {
		return "", err
	}
	c.listener = l
	return l.Addr().String(), nil
}

func (s *server) unlisten([]string) (string, error) {
	l := s.clients.listener
	if l == nil {
		return "", errors.New("there is no listener")
	}
	s.clients.listener = nil
	return "", l.Close()
}

// dial runs the command "dial EP none|peer ADDRESS:PORT plain|id", which creates an endpoint to a
// listener.
func (s *server) dial(args []string) (string, error) {
	addr, err := netip.ParseAddrPort(args[2])
	if err != nil {
		return "", err
	}
	params := ucp.EndpointParams{RemoteAddr: addr}
	if args[3] == "id" {
		params.Flags = ucp.EndpointSendClientID
	}
	return s.newEndpoint(args[0], args[1], params)
}

// client runs the command "client MS", which takes the oldest waiting client in hand.
func (s *server) client(args []string) (string, error) {
	ms, err := numbers(args[0])
	if err != nil {
		return "", err
	}
	c := &s.clients
	if c.current != nil {
		return "", errors.New("there is a client in hand")
	}
	if err := s.progressUntil(milliseconds(ms[0]), func() bool { return len(c.waiting) > 0 }); err != nil {
		return "", err
	}
	c.current, c.waiting = c.waiting[0], c.waiting[1:]
	addr, err := c.current.ClientAddr()
	return fmt.Sprintf("%v %#x", addr, c.current.ClientID()), err
}

func (c *clients) take() (*ucp.ConnRequest, error) {
	r := c.current
	if r == nil {
		return nil, errors.New("there is no client in hand")
	}
	c.current = nil
	return r, nil
}

// accept runs the command "accept EP none|peer", which accepts the client in hand.
func (s *server) accept(args []string) (string, error) {
	r, err := s.clients.take()
	if err != nil {
		return "", err
	}
	return s.newEndpoint(args[0], args[1], ucp.EndpointParams{ConnRequest: r})
}

func (s *server) reject([]string) (string, error) {
	r, err := s.clients.take()
	if err != nil {
		return "", err
	}
	return "", s.clients.listener.Reject(r)
}

// sockets runs the command "sockets EP", which returns the local and remote socket addresses.
func (s *server) sockets(args []string) (string, error) {
	ep, err := s.endpoint(args[0])
	if err != nil {
		return "", err
	}
	local, err := ep.LocalAddr()
	if err != nil {
		return "", err
	}
	remote, err := ep.RemoteAddr()
	return fmt.Sprintf("%v %v", local, remote), err
}
