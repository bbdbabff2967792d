//go:build linux

package main

import (
	"fmt"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
)

// group connects the two sides of a test, or one process with itself.
type group interface {
	// index is 0 for the server, which goes first in a ping-pong, and 1 for the
	// client, which sends in a stream.
	index() int
	loopback() bool

	// release returns the release whose form of the protocol the sides use.
	release() perfoob.Release

	// barrier waits for the other side and calls progress while it waits.
	barrier(progress func() int) error

	// exchange sends bytes to the other side and receives the other side's, at most limit.
	exchange(v []byte, limit int) ([]byte, error)

	// exchangeStatus sends a status to the other side and receives the other side's. It returns the
	// other side's status, or s if that is OK.
	exchangeStatus(s ucs.Status) (ucs.Status, error)

	// alive returns an error if the other side is known to be gone.
	alive() error

	close() error
}

// pair is the group of two processes.
type pair struct {
	conn *perfoob.Conn
	idx  int
	rel  perfoob.Release
}

func (g *pair) index() int                        { return g.idx }
func (g *pair) loopback() bool                    { return false }
func (g *pair) release() perfoob.Release          { return g.rel }
func (g *pair) barrier(progress func() int) error { return g.conn.Barrier(progress) }
func (g *pair) alive() error                      { return g.conn.Alive() }
func (g *pair) close() error                      { return g.conn.Close() }

// exchange implements group. It receives the first reply that a client gets. If a C server is of
// another release than the client assumes, the server has closed the connection by then, so the
// client's error names the option --peer.
func (g *pair) exchange(v []byte, limit int) ([]byte, error) {
	got, err := g.conn.ExchangeVector(v, limit)
	if err != nil && g.idx == 1 {
		err = fmt.Errorf("%w; assumed server release %v; set another with --peer", err, g.rel)
	}
	return got, err
}

func (g *pair) exchangeStatus(s ucs.Status) (ucs.Status, error) {
	peer, err := g.conn.ExchangeStatus(s)
	if err == nil && peer == ucs.OK {
		return s, nil
	}
	return peer, err
}

// alone is the group of one process that talks to itself.
type alone struct{}

func (alone) index() int                                      { return 0 }
func (alone) loopback() bool                                  { return true }
func (alone) release() perfoob.Release                        { return perfoob.Release122 }
func (alone) barrier(func() int) error                        { return nil }
func (alone) exchange(v []byte, _ int) ([]byte, error)        { return v, nil }
func (alone) exchangeStatus(s ucs.Status) (ucs.Status, error) { return s, nil }
func (alone) alive() error                                    { return nil }
func (alone) close() error                                    { return nil }

// agree exchanges the result of the set-up with the other side. It fails if either side failed.
func agree(g group, own error) error {
	peer, err := g.exchangeStatus(ucs.StatusOf(own))
	switch {
	case own != nil:
		return own
	case err != nil:
		return err
	case peer.IsError():
		return fmt.Errorf("the other side cannot run the test: %w", peer)
	}
	return nil
}
