package docs_test

import (
	"bytes"
	"context"
	"errors"
	"expvar"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucpnet"
	"github.com/ucx-go/ucx/ucs"
)

// The programs of guide.md. Text between "snippet" and "end" is copied into the document.

// snippet open
// open makes a worker that any goroutine may call, and that answers its peers also while none does.
func open(features ucp.Features) (*ucp.Context, *ucp.Worker, error) {
	c, err := ucp.NewContext(ucp.ContextParams{Features: features}, nil) // nil: the UCX_ variables
	if err != nil {
		return nil, nil, err
	}
	w, err := c.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti, Background: true})
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, w, nil
}

// end

// snippet server
const (
	idQuestion = 1
	idAnswer   = 2
)

// serve answers questions until ctx ends.
func serve(ctx context.Context, w *ucp.Worker, at netip.AddrPort, ready chan<- netip.AddrPort) error {
	questions, err := w.NewAMQueue(ucp.AMQueueParams{ID: idQuestion, MaxData: 1 << 20})
	if err != nil {
		return err
	}
	defer questions.Close()
	l, err := w.NewListener(ucp.ListenerParams{Addr: at, OnAccept: accepted})
	if err != nil {
		return err
	}
	defer l.Close()
	ready <- l.Addr()
	for m, err := range questions.All(ctx) { // each is released behind its turn
		if err != nil {
			return err
		}
		if err := answer(ctx, m); err != nil {
			log.Print("a client was not answered: ", err)
		}
	}
	return nil
}

// accepted gets the endpoint to each client. It is the program's, to close when the client has gone.
func accepted(ep *ucp.Endpoint) {
	ep.SetErrorHandler(func(ep *ucp.Endpoint, err error, _ any) { ep.Close() })
}

// answer sends a question back to its client, which has a second to take the answer.
func answer(ctx context.Context, m *ucp.AMMessage) error {
	client := m.Reply()
	if client == nil {
		return nil // the client does not want an answer
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return client.AMSendWait(ctx, idAnswer, m.Header(), m.Data(), 0)
}

// end

// snippet client
// ask sends a question and waits for the answer.
func ask(ctx context.Context, w *ucp.Worker, server netip.AddrPort, question string) (string, error) {
	answers, err := w.NewAMQueue(ucp.AMQueueParams{ID: idAnswer})
	if err != nil {
		return "", err
	}
	defer answers.Close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	ep, err := w.NewEndpoint(ucp.EndpointParams{
		RemoteAddr: server,
		ErrMode:    ucp.ErrModePeer,
		OnError:    func(_ *ucp.Endpoint, err error, _ any) { fail(err) }, // ends the waits below
	})
	if err != nil {
		return "", err
	}
	defer ep.Close()
	if err := ep.AMSendWait(ctx, idQuestion, nil, []byte(question), ucp.AMSendReply); err != nil {
		return "", err
	}
	m, err := answers.Next(ctx)
	if err != nil {
		return "", errors.Join(err, context.Cause(ctx))
	}
	text := string(m.Data())
	m.Release()
	return text, ep.Shutdown(ctx) // hands over what was sent, then closes
}

// end

func Example_server() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	c, w, err := open(ucp.FeatureAM)
	if err != nil {
		log.Fatal(err)
	}
	ready, ended := make(chan netip.AddrPort), make(chan error)
	go func() { ended <- serve(ctx, w, netip.MustParseAddrPort("127.0.0.1:0"), ready) }()
	at := <-ready
	d, v, err := open(ucp.FeatureAM)
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range []string{"ping", string(make([]byte, 500_000))} {
		a, err := ask(ctx, v, at, q)
		fmt.Println(a == q, err)
	}
	cancel()
	fmt.Println(errors.Is(<-ended, context.Canceled))
	fmt.Println(v.Close(), d.Close(), w.Close(), c.Close())
	// Output:
	// true <nil>
	// true <nil>
	// true
	// <nil> <nil> <nil> <nil>
}

// snippet addresses
// exchange connects two workers by their addresses. How the addresses travel is up to the program:
// a file, a key-value store, the job's launcher.
func exchange(ctx context.Context, w *ucp.Worker, tell func([]byte) error, hear func() ([]byte, error)) (*ucp.Endpoint, error) {
	own, err := w.Address(0)
	if err != nil {
		return nil, err
	}
	if err := tell(own); err != nil {
		return nil, err
	}
	peer, err := hear()
	if err != nil {
		return nil, err
	}
	return w.NewEndpoint(ucp.EndpointParams{Address: peer, ErrMode: ucp.ErrModePeer})
}

// end

// connected is two workers with an endpoint to each other.
type connected struct {
	contexts  [2]*ucp.Context
	workers   [2]*ucp.Worker
	endpoints [2]*ucp.Endpoint
}

// connect makes two connected workers, each in its own goroutine, like two processes.
func connect(ctx context.Context, features ucp.Features) (*connected, error) {
	p := new(connected)
	ways := [2]chan []byte{make(chan []byte, 1), make(chan []byte, 1)}
	var failed [2]error
	var group sync.WaitGroup
	for k := range 2 {
		var err error
		if p.contexts[k], p.workers[k], err = open(features); err != nil {
			return nil, err
		}
		group.Add(1)
		go func() {
			defer group.Done()
			tell := func(b []byte) error { ways[k] <- b; return nil }
			hear := func() ([]byte, error) { return <-ways[1-k], nil }
			p.endpoints[k], failed[k] = exchange(ctx, p.workers[k], tell, hear)
		}()
	}
	group.Wait()
	return p, errors.Join(failed[:]...)
}

// close shuts down both workers at the same time.
func (p *connected) close(ctx context.Context) error {
	var ended [2]error
	var group sync.WaitGroup
	for k := range 2 {
		group.Add(1)
		go func() {
			defer group.Done()
			ended[k] = shutdown(ctx, p.contexts[k], p.workers[k])
		}()
	}
	group.Wait()
	return errors.Join(ended[:]...)
}

// snippet shutdown
// shutdown ends a program in good order: the peers get what was sent to them, as long as ctx allows.
func shutdown(ctx context.Context, c *ucp.Context, w *ucp.Worker) error {
	err := w.Shutdown(ctx) // all endpoints; the error says what the peers have not answered
	return errors.Join(err, w.Close(), c.Close())
}

// end

// snippet tags
// talk sends a tagged message and receives the answer, which has the tag of the question.
func talk(ctx context.Context, w *ucp.Worker, ep *ucp.Endpoint, tag ucp.Tag, text string) (string, error) {
	if err := ep.TagSendWait(ctx, tag, []byte(text)); err != nil {
		return "", err
	}
	buf := make([]byte, 64)
	info, err := w.TagRecvWait(ctx, tag, ucp.FullMask, buf) // a longer message: ErrMessageTruncated
	if err != nil {
		return "", err
	}
	return string(buf[:info.Length]), nil
}

// end

func Example_tags() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := connect(ctx, ucp.FeatureTag)
	if err != nil {
		log.Fatal(err)
	}
	go talk(ctx, p.workers[1], p.endpoints[1], 7, "from the other side")
	fmt.Println(talk(ctx, p.workers[0], p.endpoints[0], 7, "hello"))
	fmt.Println(p.close(ctx))
	// Output:
	// from the other side <nil>
	// <nil>
}

// snippet deadline
// receive waits for at most a second. A message that comes later is received by the next call.
func receive(ctx context.Context, w *ucp.Worker, buf []byte) (n int, late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	info, err := w.TagRecvWait(ctx, 7, ucp.FullMask, buf)
	if errors.Is(err, context.DeadlineExceeded) {
		return 0, true, nil
	}
	return info.Length, false, err
}

// end

func Example_deadline() {
	ctx := context.Background()
	c, w, err := open(ucp.FeatureTag)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receive(ctx, w, make([]byte, 8)))
	fmt.Println(w.Close(), c.Close())
	// Output:
	// 0 true <nil>
	// <nil> <nil>
}

// snippet errors
// explain says what a program does about an error of an operation.
func explain(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "the program has given it up"
	case errors.Is(err, ucs.ErrPeerClosed):
		return "the peer has closed its end: connect again if there is more to do"
	case errors.Is(err, ucs.ErrConnectionReset), errors.Is(err, ucs.ErrEndpointTimeout):
		return "the peer is gone: close the endpoint, connect again later"
	case errors.Is(err, ucs.ErrNotConnected), errors.Is(err, ucs.ErrUnreachable):
		return "nobody listens there, or nothing leads there"
	case errors.Is(err, ucs.ErrRejected):
		return "the server does not want this client"
	case errors.Is(err, ucs.ErrMessageTruncated):
		return "the message was longer than the buffer"
	case errors.Is(err, ucs.ErrInvalidParam), errors.Is(err, ucs.ErrUnsupported):
		return "the program is wrong, or a setting: the text names it"
	}
	return "not expected: " + err.Error()
}

// end

func Example_errors() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, w, err := open(ucp.FeatureAM)
	if err != nil {
		log.Fatal(err)
	}
	_, err = ask(ctx, w, netip.MustParseAddrPort("127.0.0.1:1"), "anybody?")
	fmt.Println(explain(err))
	fmt.Println(w.Close(), c.Close())
	// Output:
	// nobody listens there, or nothing leads there
	// <nil> <nil>
}

// snippet reconnect
// connectAgain tries until a server answers, ever more slowly.
func connectAgain(ctx context.Context, w *ucp.Worker, server netip.AddrPort) (*ucp.Endpoint, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ep, err := w.NewEndpoint(ucp.EndpointParams{RemoteAddr: server, ErrMode: ucp.ErrModePeer})
		if err != nil {
			return nil, err // of the program: nothing was tried
		}
		if err = ep.ConnectWait(ctx); err == nil {
			return ep, nil
		}
		ep.Close()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, errors.Join(err, context.Cause(ctx))
		}
	}
}

// end

func Example_reconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, w, err := open(ucp.FeatureAM)
	if err != nil {
		log.Fatal(err)
	}
	l, err := w.NewListener(ucp.ListenerParams{Addr: netip.MustParseAddrPort("127.0.0.1:0"), OnAccept: accepted})
	if err != nil {
		log.Fatal(err)
	}
	at := l.Addr()
	l.Close() // no listener any more
	found := make(chan error)
	go func() {
		ep, err := connectAgain(ctx, w, at)
		if err == nil {
			err = ep.Close()
		}
		found <- err
	}()
	l, err = w.NewListener(ucp.ListenerParams{Addr: at, ReuseAddr: true, OnAccept: accepted})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-found)
	fmt.Println(l.Close(), w.Close(), c.Close())
	// Output:
	// <nil>
	// <nil> <nil> <nil>
}

// snippet lend
// lend registers memory that peers may write, read and count in. They need its address and its key.
func lend(c *ucp.Context, n int) (*ucp.Memory, uint64, []byte, error) {
	mem, err := c.Alloc(n, ucp.ProtAll)
	if err != nil {
		return nil, 0, nil, err
	}
	key, err := mem.PackRkey()
	if err != nil {
		mem.Close()
		return nil, 0, nil, err
	}
	return mem, mem.Attr().Address, key, nil
}

// end

// snippet access
// access writes into a peer's memory, counts in it, and reads it.
func access(ctx context.Context, ep *ucp.Endpoint, address uint64, packed []byte) ([]byte, error) {
	key, err := ep.UnpackRkey(packed)
	if err != nil {
		return nil, err
	}
	defer key.Close()
	if err := ep.PutWait(ctx, []byte("hello"), address+8, key); err != nil {
		return nil, err
	}
	if _, err := ucp.FetchAddWait[uint64](ctx, ep, address, key, 1); err != nil {
		return nil, err
	}
	if err := ep.FlushWait(ctx); err != nil { // the put has taken effect there
		return nil, err
	}
	buf := make([]byte, 13)
	return buf, ep.GetWait(ctx, buf, address, key)
}

// end

func Example_memory() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := connect(ctx, ucp.FeatureRMA|ucp.FeatureAMO64)
	if err != nil {
		log.Fatal(err)
	}
	mem, address, key, err := lend(p.contexts[1], 4096)
	if err != nil {
		log.Fatal(err)
	}
	got, err := access(ctx, p.endpoints[0], address, key)
	fmt.Printf("%q %v\n", got, err)
	fmt.Println(mem.Close(), p.close(ctx))
	// Output:
	// "\x01\x00\x00\x00\x00\x00\x00\x00hello" <nil>
	// <nil> <nil>
}

// snippet stream
// copyOut writes what a peer sends over its stream, until the peer closes.
func copyOut(ctx context.Context, ep *ucp.Endpoint, out io.Writer) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := ep.StreamRecvWait(ctx, buf)
		if errors.Is(err, ucs.ErrPeerClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := out.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// end

func Example_stream() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, w, err := open(ucp.FeatureStream)
	if err != nil {
		log.Fatal(err)
	}
	clients := make(chan *ucp.Endpoint, 1)
	l, err := w.NewListener(ucp.ListenerParams{
		Addr:     netip.MustParseAddrPort("127.0.0.1:0"),
		OnAccept: func(ep *ucp.Endpoint) { clients <- ep },
	})
	if err != nil {
		log.Fatal(err)
	}
	d, v, err := open(ucp.FeatureStream)
	if err != nil {
		log.Fatal(err)
	}
	ep, err := connectAgain(ctx, v, l.Addr())
	if err != nil {
		log.Fatal(err)
	}
	sent := make(chan error)
	go func() {
		err := ep.StreamSendWait(ctx, []byte("bytes, without boundaries\n"))
		sent <- errors.Join(err, ep.Shutdown(ctx))
	}()
	client := <-clients
	fmt.Println(copyOut(ctx, client, os.Stdout))
	fmt.Println(<-sent, client.Close(), l.Close())
	fmt.Println(v.Close(), d.Close(), w.Close(), c.Close())
	// Output:
	// bytes, without boundaries
	// <nil>
	// <nil> <nil> <nil>
	// <nil> <nil> <nil> <nil>
}

// snippet ucpnet
// echo serves package net's interfaces: what is written for net.Conn runs over shared memory or RDMA.
func echo(at string) (io.Closer, string, error) {
	l, err := ucpnet.Listen("ucp", at)
	if err != nil {
		return nil, "", err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	return l, l.Addr().String(), nil
}

// end

func Example_ucpnet() {
	l, at, err := echo("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	conn, err := ucpnet.Dial("ucp", at)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprint(conn, "hello")
	buf := make([]byte, 5)
	_, err = io.ReadFull(conn, buf)
	fmt.Println(string(buf), err)
	fmt.Println(conn.Close(), l.Close())
	fmt.Println(ucpnet.Shutdown(context.Background()))
	// Output:
	// hello <nil>
	// <nil> <nil>
	// <nil>
}

// snippet http
// httpClient makes its connections over ucpnet.
func httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: new(ucpnet.Config).DialContext}}
}

// end

func Example_http() {
	l, err := ucpnet.Listen("ucp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "this is ", r.URL.Path) }))
	client := httpClient()
	res, err := client.Get("http://" + l.Addr().String() + "/page")
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	client.CloseIdleConnections()
	fmt.Println(string(body), err, l.Close())
	// Output: this is /page <nil> <nil>
}

// snippet logging
// openLogged makes a context that logs through slog, at a level that may change at any time.
func openLogged(out io.Writer, level *slog.LevelVar) (*ucp.Context, error) {
	logger := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}))
	return ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag, Logger: logger}, nil)
}

// end

// snippet metrics
// counters are those of a worker in thread mode multi, for expvar.Publish.
func counters(w *ucp.Worker) expvar.Var {
	return expvar.Func(func() any { return w.Stats() })
}

// end

func Example_watching() {
	var out bytes.Buffer
	var level slog.LevelVar
	level.Set(slog.LevelInfo)
	c, err := openLogged(&out, &level)
	if err != nil {
		log.Fatal(err)
	}
	w, err := c.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti, Background: true}) // as open does
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(counters(w).String(), `"TagSends":0`))
	if err := shutdown(context.Background(), c, w); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(out.String(), `"msg":"worker uses"`))
	// Output:
	// true
	// true
}

// snippet tuning
// report prints how an endpoint reaches its peer: transports, protocols by size, and why not others.
func report(out io.Writer, ep *ucp.Endpoint) {
	for _, t := range ep.Attr().Transports {
		fmt.Fprintln(out, "over", t.Name, "on", t.Device)
	}
	fmt.Fprintln(out, ep.Explain())
}

// end

func Example_tuning() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := connect(ctx, ucp.FeatureTag)
	if err != nil {
		log.Fatal(err)
	}
	report(io.Discard, p.endpoints[0])
	fmt.Println(p.close(ctx))
	// Output: <nil>
}
