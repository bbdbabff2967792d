package ucpnet

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// Config holds the options for listening and connecting. The zero value is the default. Its
// methods do not change it, and any goroutine may call them.
type Config struct {
	// Worker, unless nil, is used instead of the worker that the process shares. It must be in
	// ucs.ThreadModeMulti, its context must have FeatureStream and FeatureAM, and the application
	// must not use the active message id MessageID. It must stay open until all objects that use it
	// are closed and the time Linger of each connection is over. To connect to servers of C UCX
	// that use only streams, its context needs UCX_RNDV_SCHEME=am; to listen on a port of
	// connections that have just ended, it needs UCX_TCP_CM_REUSEADDR=y. Without
	// WorkerParams.Background the worker answers peers only while a goroutine waits on it.
	Worker *ucp.Worker

	// Timeout limits the time for connecting; with 0 only the context limits it.
	Timeout time.Duration

	// LocalAddr is the local address to connect from: an IP address of this machine, with
	// or without a port. If empty the routing table decides.
	LocalAddr string

	// Backlog is the number of connections that may wait for Accept; 0 means 128. Further
	// connections are rejected, with one exception: if another address or local user has at least
	// two more waiting connections than the client's, the new connection is accepted and one of
	// the other's is reset.
	Backlog int

	// Linger is the time that a closed connection may take to send the written bytes and to receive
	// the peer's confirmation of the end; 0 means 10s.
	Linger time.Duration
}

const (
	defaultBacklog = 128
	defaultLinger  = 10 * time.Second
)

// filled returns the configuration with its defaults.
func (c *Config) filled() Config {
	f := *c
	f.Backlog = cmp.Or(f.Backlog, defaultBacklog)
	f.Linger = cmp.Or(f.Linger, defaultLinger)
	return f
}

// Listen calls Config.Listen with the defaults.
func Listen(network, address string) (net.Listener, error) {
	return new(Config).Listen(context.Background(), network, address)
}

// Dial calls Config.DialContext with the defaults, without a time limit except those of the
// system.
func Dial(network, address string) (net.Conn, error) {
	return new(Config).DialContext(context.Background(), network, address)
}

// Pipe calls Config.Pipe with the defaults.
func Pipe() (net.Conn, net.Conn, error) { return new(Config).Pipe() }
