package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
)

// sockets has one socket for each goroutine.
type sockets []net.Conn

// openSockets opens the sockets, of the network unix or tcp.
func openSockets(p pipe, network string) (link, error) {
	conns := make(sockets, *goroutines)
	if !*serve {
		address, err := p.exchange(nil)
		if err != nil {
			return nil, err
		}
		for n := range conns {
			if conns[n], err = net.Dial(network, string(address)); err != nil {
				return nil, err
			}
		}
		return conns, nil
	}
	at := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "crowd")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		at = filepath.Join(dir, "socket")
	}
	listener, err := net.Listen(network, at)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	if _, err := p.exchange([]byte(listener.Addr().String())); err != nil {
		return nil, err
	}
	for n := range conns {
		if conns[n], err = listener.Accept(); err != nil {
			return nil, err
		}
	}
	return conns, nil
}

func (l sockets) ask(n int, message []byte) error {
	if _, err := l[n].Write(message); err != nil {
		return err
	}
	_, err := io.ReadFull(l[n], message)
	return err
}

func (l sockets) answer(n int, message []byte) error {
	if _, err := io.ReadFull(l[n], message); err != nil {
		return err
	}
	_, err := l[n].Write(message)
	return err
}

func (l sockets) close() error {
	for _, c := range l {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}
