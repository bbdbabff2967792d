package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
)

// unixLink is one socket for each goroutine.
type unixLink []net.Conn

func openUnix(p pipe) (link, error) {
	if !*serve {
		name, err := p.exchange(nil)
		if err != nil {
			return nil, err
		}
		conns := make(unixLink, *goroutines)
		for n := range conns {
			if conns[n], err = net.Dial("unix", string(name)); err != nil {
				return nil, err
			}
		}
		return conns, nil
	}
	dir, err := os.MkdirTemp("", "crowd")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "socket")
	listener, err := net.Listen("unix", name)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	if _, err := p.exchange([]byte(name)); err != nil {
		return nil, err
	}
	conns := make(unixLink, *goroutines)
	for n := range conns {
		if conns[n], err = listener.Accept(); err != nil {
			return nil, err
		}
	}
	return conns, nil
}

func (l unixLink) ask(n int, message []byte) error {
	if _, err := l[n].Write(message); err != nil {
		return err
	}
	_, err := io.ReadFull(l[n], message)
	return err
}

func (l unixLink) answer(n int, message []byte) error {
	if _, err := io.ReadFull(l[n], message); err != nil {
		return err
	}
	_, err := l[n].Write(message)
	return err
}

func (l unixLink) close() error {
	for _, c := range l {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}
