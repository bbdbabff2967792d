//go:build linux

package conformance

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucpnet"
	"github.com/ucx-go/ucx/ucs"
)

// ways are the transports over which connections are tested.
var ways = []struct {
	name, tls string
	pipe      bool // connected by Pipe, without a connection manager
}{
	{"self", "self", true},
	{"shm", "posix,cma,tcp", false},
	{"tcp", "tcp", false},
	{"all", "all", false},
}

// worker opens a worker with the given transports.
func worker(t *testing.T, tls string) *ucp.Worker {
	t.Helper()
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Modify("TLS", tls)
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureStream | ucp.FeatureAM}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := ctx.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); ctx.Close() })
	return w
}

func TestConn(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			config := ucpnet.Config{Worker: worker(t, way.tls)}
			if way.pipe {
				nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
					a, b, err := config.Pipe()
					if err != nil {
						return nil, nil, nil, err
					}
					return a, b, func() { a.Close(); b.Close() }, nil
				})
				return
			}
			dialer := ucpnet.Config{Worker: worker(t, way.tls)}
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				l, err := config.Listen(t.Context(), "ucp", "127.0.0.1:0")
				if err != nil {
					return nil, nil, nil, err
				}
				defer l.Close()
				accepted := make(chan net.Conn, 1)
				go func() {
					c, err := l.Accept()
					if err != nil {
						t.Error(err)
					}
					accepted <- c
				}()
				a, err := dialer.DialContext(t.Context(), "ucp", l.Addr().String())
				if err != nil {
					return nil, nil, nil, err
				}
				b := <-accepted
				return a, b, func() { a.Close(); b.Close() }, nil
			})
		})
	}
}
