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

// clients are those that wait until commands say what becomes of them.
type clients struct {
	listener *ucp.Listener
	waiting  []*ucp.ConnRequest
	hand     *ucp.ConnRequest // taken by client
}

// listen ADDRESS:PORT
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

// dial EP none|peer ADDRESS:PORT plain|id
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

// client MS
func (s *server) client(args []string) (string, error) {
	ms, err := numbers(args[0])
	if err != nil {
		return "", err
	}
	c := &s.clients
	if c.hand != nil {
		return "", errors.New("there is a client in hand")
	}
	if err := s.progressUntil(milliseconds(ms[0]), func() bool { return len(c.waiting) > 0 }); err != nil {
		return "", err
	}
	c.hand, c.waiting = c.waiting[0], c.waiting[1:]
	addr, err := c.hand.ClientAddr()
	return fmt.Sprintf("%v %#x", addr, c.hand.ClientID()), err
}

func (c *clients) take() (*ucp.ConnRequest, error) {
	r := c.hand
	if r == nil {
		return nil, errors.New("there is no client in hand")
	}
	c.hand = nil
	return r, nil
}

// accept EP none|peer
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

// sockets EP
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
