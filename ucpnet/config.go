package ucpnet

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// Config says how to listen and connect. The zero value is the default. Its methods do not
// change it, and any goroutine may call them.
type Config struct {
	// Worker, unless nil, is used instead of the worker that all of the process share. It
	// must be in ucs.ThreadModeMulti and of a context with FeatureStream and FeatureAM,
	// must not use the active messages MessageID for anything else, and must stay open
	// until everything that was made with it is closed, and has had its Linger. To connect
	// to servers of C UCX that use streams alone its context needs UCX_RNDV_SCHEME=am, and to
	// listen at a port of which connections have just ended UCX_TCP_CM_REUSEADDR=y. Without
	// WorkerParams.Background it answers peers only while somebody waits on it.
	Worker *ucp.Worker

	// Timeout bounds the time that connecting takes, 0: nothing but the context does.
	Timeout time.Duration

	// LocalAddr is where to connect from, an IP address of this machine with or without a
	// port; empty: what the routes say.
	LocalAddr string

	// Backlog is how many connections may wait for Accept, 0: 128. More are rejected, but
	// for those of an address, or a user of this machine, that has fewer waiting than
	// another one: that loses one then, with a reset.
	Backlog int

	// Linger is how long a connection that was closed may take to send what was written,
	// and to hear that the peer knows of the end; 0: 10s.
	Linger time.Duration
}

const (
	defaultBacklog = 128
	defaultLinger  = 10 * time.Second
)

// filled is the configuration with its defaults.
func (c *Config) filled() Config {
	f := *c
	f.Backlog = cmp.Or(f.Backlog, defaultBacklog)
	f.Linger = cmp.Or(f.Linger, defaultLinger)
	return f
}

// Listen is Config.Listen with the defaults.
func Listen(network, address string) (net.Listener, error) {
	return new(Config).Listen(context.Background(), network, address)
}

// Dial is Config.DialContext with the defaults, and no limit but those of the system.
func Dial(network, address string) (net.Conn, error) {
	return new(Config).DialContext(context.Background(), network, address)
}

// Pipe is Config.Pipe with the defaults.
func Pipe() (net.Conn, net.Conn, error) { return new(Config).Pipe() }
