// Hello is a client and a server, in Go and (in the folder c) in C with UCX's own library. A client
// and a server of either language work together. A client sends a name to a server that it finds by
// socket address, and gets a greeting, by active messages.
//
//	hello 127.0.0.1 13337         a server, for one client; prints its port; 0 is any
//	hello 127.0.0.1 13337 NAME    a client
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"

	"github.com/ucx-go/ucx/ucp"
)

// Ids of active messages. The headers hold the texts.
const (
	idName     = 1
	idGreeting = 2
)

func main() {
	const usage = "usage: hello HOST PORT [NAME]: the server, or with a name its client"
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	flag.Parse() // there are no flags but -help
	args := flag.Args()
	if len(args) < 2 || len(args) > 3 {
		fmt.Fprintf(os.Stderr, "hello: 2 or 3 arguments are needed, not %q\n%s\n", args, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, net.JoinHostPort(args[0], args[1]), args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, at string, name []string) error {
	host, err := net.ResolveTCPAddr("tcp", at) // a name or an address
	if err != nil {
		return err
	}
	addr := netip.AddrPortFrom(host.AddrPort().Addr().Unmap(), uint16(host.Port))
	c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureAM}, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := c.NewWorker(ucp.WorkerParams{})
	if err != nil {
		return err
	}
	defer w.Close()
	if len(name) == 0 {
		return serve(ctx, w, addr)
	}
	return greet(ctx, w, addr, name[0])
}

// serve answers until the first client has disconnected.
func serve(ctx context.Context, w *ucp.Worker, addr netip.AddrPort) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	err := w.SetAMHandler(ucp.AMHandlerParams{ID: idName, Handler: onName})
	if err != nil {
		return err
	}
	l, err := w.NewListener(ucp.ListenerParams{Addr: addr, OnAccept: func(ep *ucp.Endpoint) {
		ep.SetErrorHandler(func(*ucp.Endpoint, error, any) { leave(errLeft) })
	}})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("port", l.Addr().Port())
	w.Run(ctx) // until ctx ends
	if err := context.Cause(ctx); err != errLeft {
		return err
	}
	return nil
}

var errLeft = errors.New("the client has left")

// onName handles a client's name: it replies with a greeting.
func onName(m *ucp.AMMessage) error {
	client := m.Reply()
	if client == nil {
		return nil
	}
	r, err := client.AMSend(idGreeting, fmt.Appendf(nil, "hello %s, this is Go", m.Header()), nil, nil)
	r.Free() // the send goes on without the request
	return err
}

// greet sends a name to the server, and prints its answer.
func greet(ctx context.Context, w *ucp.Worker, addr netip.AddrPort, name string) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	greetings, err := w.NewAMQueue(ucp.AMQueueParams{ID: idGreeting})
	if err != nil {
		return err
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{
		RemoteAddr: addr,
		ErrMode:    ucp.ErrModePeer,
		OnError:    func(_ *ucp.Endpoint, err error, _ any) { fail(err) },
	})
	if err != nil {
		return err
	}
	if err := ep.AMSendWait(ctx, idName, []byte(name), nil, ucp.AMSendReply); err != nil {
		return err
	}
	m, err := greetings.Next(ctx)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	fmt.Printf("%s\n", m.Header())
	m.Release()
	return ep.Shutdown(ctx)
}
