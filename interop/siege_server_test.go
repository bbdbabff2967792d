//go:build linux

package interop

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Tags of the siege. The low bits are the sender's number.
const (
	siegeHello ucp.Tag = 1 << 56 // a client's worker address
	siegeEcho  ucp.Tag = 2 << 56 // is echoed to the client that the tag names
	siegeDrop          = 3 << 56 // is received and dropped
	siegeKeep          = 4 << 56 // is never received
	siegeKind  ucp.Tag = 0xff << 56
)

// siegeMemory is the size of the memory that clients access.
const siegeMemory = 64 << 10

// siegeLongest is the longest message of a client.
const siegeLongest = 256 << 10

// siegeReady is a server's description of itself.
type siegeReady struct {
	Address, Key []byte
	Memory       uint64
	UUID         uint64
}

// siegeStats is the resource use of a server.
type siegeStats struct {
	RSS, Heap, Files, Goroutines int
	Stats                        ucp.Stats
}

// siegeServe serves all clients: it echoes messages, and has memory for puts, gets and atomics.
func siegeServe() error {
	c, w, end, err := siegeWorker()
	if err != nil {
		return err
	}
	defer end()
	mem, err := c.Alloc(siegeMemory, ucp.ProtAll)
	if err != nil {
		return err
	}
	defer mem.Close()
	key, err := mem.PackRkey()
	if err != nil {
		return err
	}
	addr, err := w.Address(0)
	if err != nil {
		return err
	}
	if err := answer(siegeReady{Address: addr, Key: key, Memory: mem.Attr().Address, UUID: w.Attr().UID}); err != nil {
		return err
	}
	s := &siegeServer{w: w, clients: make(map[ucp.Tag]*ucp.Endpoint)}
	for range 8 {
		s.receive(siegeEcho, make([]byte, siegeLongest), s.echo)
		s.receive(siegeDrop, make([]byte, 1024), func([]byte, ucp.Tag) {})
	}
	s.receive(siegeHello, make([]byte, 4096), s.hello)
	lines := commands(func() { _ = w.Signal() })
	for s.err == nil {
		for w.Progress() > 0 {
		}
		select {
		case _, open := <-lines:
			if !open {
				return s.err
			}
			if err := answer(s.stats()); err != nil {
				return err
			}
		default:
			if err := w.Wait(context.Background()); err != nil {
				return err
			}
		}
	}
	return s.err
}

type siegeServer struct {
	w       *ucp.Worker
	clients map[ucp.Tag]*ucp.Endpoint
	err     error
}

// receive posts a receive, and posts it again whenever it has completed.
func (s *siegeServer) receive(kind ucp.Tag, buf []byte, handle func([]byte, ucp.Tag)) {
	_, err := s.w.TagRecv(kind, siegeKind, buf, &ucp.RequestParams{
		Flags: ucp.OpNoImmediate,
		OnTagRecv: func(r *ucp.Request, err error, info ucp.TagRecvInfo, _ any) {
			switch {
			case errors.Is(err, ucs.ErrCanceled):
				return // the worker closes
			case err == nil:
				handle(buf[:info.Length], info.SenderTag&^siegeKind)
			}
			r.Free()
			s.receive(kind, buf, handle)
		},
	})
	if err != nil && s.err == nil {
		s.err = err
	}
}

// hello makes an endpoint for a client.
func (s *siegeServer) hello(addr []byte, client ucp.Tag) {
	ep, err := s.w.NewEndpoint(ucp.EndpointParams{Address: addr, ErrMode: ucp.ErrModePeer})
	if err != nil {
		return // attackers send arbitrary addresses
	}
	s.clients[client] = ep
}

// echo sends a message back to its client.
func (s *siegeServer) echo(b []byte, client ucp.Tag) {
	ep := s.clients[client]
	if ep == nil {
		return
	}
	// On failure the client detects the end of its connection.
	_, _ = ep.TagSend(siegeEcho|client, bytes.Clone(b), &ucp.RequestParams{OnSend: func(r *ucp.Request, _ error, _ any) { r.Free() }})
}

// stats returns the resource use after a garbage collection.
func (s *siegeServer) stats() siegeStats {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, _ := os.ReadDir("/proc/self/fd")
	return siegeStats{RSS: residentSet(), Heap: int(m.HeapAlloc), Files: len(files), Goroutines: runtime.NumGoroutine(), Stats: s.w.Stats()}
}

// residentSet returns the resident memory of this process, in bytes.
func residentSet() int {
	text, _ := os.ReadFile("/proc/self/statm")
	if f := strings.Fields(string(text)); len(f) > 1 {
		n, _ := strconv.Atoi(f[1])
		return n * os.Getpagesize()
	}
	return 0
}
