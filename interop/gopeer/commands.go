package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"strconv"
	"strings"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

var errTimeout = errors.New("timeout")

// command is the number of arguments of a command and its function.
type command struct {
	args int
	run  func(s *server, args []string) (string, error)
}

// commands holds all commands, by name. Those for connections, streams, active messages and
// one-sided operations are added in the files of their functions.
var commands = map[string]command{
	"address":    {0, (*server).address},
	"connect":    {3, (*server).connect},
	"send":       {7, (*server).send},
	"recv":       {5, (*server).recv},
	"probe":      {4, (*server).probe},
	"mrecv":      {3, (*server).mrecv},
	"wait":       {3, (*server).wait},
	"cancel":     {1, (*server).cancel},
	"flush":      {2, (*server).flush},
	"close":      {3, (*server).close},
	"failure":    {1, (*server).failure},
	"sleep":      {2, (*server).sleep},
	"transports": {1, (*server).transports},
	"progress":   {1, (*server).progress},
	"failed":     {2, (*server).failed},
	"pause":      {1, (*server).pause},
	"ends":       {0, (*server).ends},
	"use":        {1, (*server).use},
	"hold":       {0, (*server).hold},
	"retire":     {0, (*server).retire},
	"shutdown":   {1, (*server).shutdown},
	"forget":     {0, (*server).forget},
	"exit":       {0, (*server).exit},
}

// run carries out one command and returns the values of the reply.
func (s *server) run(words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("empty command")
	}
	name, args := words[0], words[1:]
	c, known := commands[name]
	if !known {
		return "", fmt.Errorf("unknown command: %s", name)
	}
	if len(args) != c.args {
		return "", fmt.Errorf("%s takes %d arguments, not %d", name, c.args, len(args))
	}
	return c.run(s, args)
}

// numbers parses arguments. The error is that of the first bad one.
func numbers(args ...string) ([]uint64, error) {
	list := make([]uint64, len(args))
	for i, a := range args {
		n, err := strconv.ParseUint(a, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("bad number: %s", a)
		}
		list[i] = n
	}
	return list, nil
}

// newRequest stores r under a number, which must be free.
func (s *server) newRequest(arg string, r *request) error {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return fmt.Errorf("bad number: %s", arg)
	}
	if s.requests[n] != nil {
		return fmt.Errorf("request %d is in use", n)
	}
	s.requests[n] = r
	return nil
}

func (s *server) request(arg string) (n int, r *request, err error) {
	n, err = strconv.Atoi(arg)
	if err != nil {
		return 0, nil, fmt.Errorf("bad number: %s", arg)
	}
	if r = s.requests[n]; r == nil {
		return 0, nil, fmt.Errorf("no request %d", n)
	}
	return n, r, nil
}

func (s *server) endpoint(arg string) (*endpoint, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return nil, fmt.Errorf("bad number: %s", arg)
	}
	ep := s.endpoints[n]
	if ep == nil || ep.Endpoint == nil {
		return nil, fmt.Errorf("no endpoint %d", n)
	}
	return ep, nil
}

func (s *server) address([]string) (string, error) {
	a, err := s.worker().Address(0)
	return hex.EncodeToString(a), err
}

// connect runs the command "connect EP none|peer ADDRESS", which creates an endpoint to a worker
// address.
func (s *server) connect(args []string) (string, error) {
	address, err := hex.DecodeString(args[2])
	if err != nil {
		return "", err
	}
	return s.newEndpoint(args[0], args[1], ucp.EndpointParams{Address: address})
}

// newEndpoint creates the endpoint whose number is arg, in error mode none or peer.
func (s *server) newEndpoint(arg, mode string, params ucp.EndpointParams) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", fmt.Errorf("bad number: %s", arg)
	}
	if old := s.endpoints[n]; old != nil && old.Endpoint != nil {
		return "", fmt.Errorf("endpoint %d is in use", n)
	}
	ep := new(endpoint)
	params.UserData = n
	if mode == "peer" {
		params.ErrMode = ucp.ErrModePeer
		params.OnError = func(_ *ucp.Endpoint, err error, _ any) {
			if ep.failure.IsError() {
				panic(fmt.Sprintf("endpoint %d fails a second time: %v, after %v", n, err, ep.failure))
			}
			ep.failure = ucs.StatusOf(err)
			log.Printf("endpoint %d: %v", n, err)
		}
	}
	s.endpoints[n] = ep
	ep.Endpoint, err = s.worker().NewEndpoint(params)
	return "", err
}

// send runs the command "send REQ EP TAG SIZE SEED LAYOUT async|sync", which sends a tagged
// message.
func (s *server) send(args []string) (string, error) {
	ep, err := s.endpoint(args[1])
	if err != nil {
		return "", err
	}
	n, err := numbers(args[2:4]...)
	if err != nil {
		return "", err
	}
	b, err := s.filled(args[5], int(n[1]), args[4])
	if err != nil {
		return "", err
	}
	r := &request{buffer: b}
	if err := s.newRequest(args[0], r); err != nil {
		return "", err
	}
	start := ep.TagSend
	if args[6] == "sync" {
		start = ep.TagSendSync
	}
	bytes, params := b.argument(s.generic)
	r.handle, r.err = start(ucp.Tag(n[0]), bytes, params)
	return "", nil
}

// recv runs the command "recv REQ TAG MASK SIZE LAYOUT", which starts the receive of a tagged
// message.
func (s *server) recv(args []string) (string, error) {
	n, err := numbers(args[1:4]...)
	if err != nil {
		return "", err
	}
	return s.receive(args[0], int(n[2]), args[4], func(bytes []byte, p *ucp.RequestParams) (*ucp.Request, error) {
		return s.worker().TagRecv(ucp.Tag(n[0]), ucp.Tag(n[1]), bytes, p)
	})
}

// mrecv runs the command "mrecv REQ SIZE LAYOUT", which receives the message that the last probe
// has taken.
func (s *server) mrecv(args []string) (string, error) {
	n, err := numbers(args[1])
	if err != nil {
		return "", err
	}
	message := s.message
	if message == nil {
		return "", errors.New("no message was taken by a probe")
	}
	s.message = nil
	return s.receive(args[0], int(n[0]), args[2], func(bytes []byte, p *ucp.RequestParams) (*ucp.Request, error) {
		return message.Recv(bytes, p)
	})
}

// filled returns a buffer with the contents that an argument SEED or SEED+OFFSET selects.
func (s *server) filled(layout string, size int, arg string) (*buffer, error) {
	c, err := contents(arg)
	if err != nil {
		return nil, err
	}
	b, err := s.newBuffer(layout, size)
	if err == nil {
		b.fill(c)
	}
	return b, err
}

// receive starts a receive into a new buffer.
func (s *server) receive(number string, size int, layout string, start func([]byte, *ucp.RequestParams) (*ucp.Request, error)) (string, error) {
	b, err := s.newBuffer(layout, size)
	if err != nil {
		return "", err
	}
	r := &request{buffer: b, isReceive: true}
	if err := s.newRequest(number, r); err != nil {
		return "", err
	}
	bytes, params := b.argument(s.generic)
	params.TagInfo = &r.info
	r.handle, r.err = start(bytes, params)
	return "", nil
}

// probe runs the command "probe TAG MASK keep|take MS", which waits for a tagged message to arrive.
func (s *server) probe(args []string) (string, error) {
	n, err := numbers(args[0], args[1], args[3])
	if err != nil {
		return "", err
	}
	take := args[2] == "take"
	if take && s.message != nil {
		return "", errors.New("a taken message waits for mrecv")
	}
	var info ucp.TagRecvInfo
	err = s.progressUntil(milliseconds(n[2]), func() bool {
		if !take {
			var found bool
			info, found = s.worker().TagPeek(ucp.Tag(n[0]), ucp.Tag(n[1]))
			return found
		}
		var found bool
		if s.message, found = s.worker().TagTake(ucp.Tag(n[0]), ucp.Tag(n[1])); found {
			info = s.message.Info()
		}
		return found
	})
	return fmt.Sprintf("%#x %d", uint64(info.SenderTag), info.Length), err
}

// wait runs the command "wait REQ SEED MS", which waits for an operation and returns its result.
func (s *server) wait(args []string) (string, error) {
	number, r, err := s.request(args[0])
	if err != nil {
		return "", err
	}
	c, err := contents(args[1])
	if err != nil {
		return "", err
	}
	n, err := numbers(args[2])
	if err != nil {
		return "", err
	}
	if err := s.progressUntil(milliseconds(n[0]), r.handle.Done); err != nil {
		return "", err
	}
	delete(s.requests, number)
	said := r.result(c)
	return said, r.buffer.release()
}

// result frees the request and returns the result of its operation. The parameter c is the expected
// message.
func (r *request) result(c content) string {
	if r.handle != nil {
		r.err = r.handle.Err()
		switch {
		case r.err != nil:
		case r.isReceive && r.untagged:
			r.info.Length, r.err = r.handle.RecvLength()
		case r.isReceive:
			r.info, r.err = r.handle.TagRecvInfo()
		}
		r.handle.Free()
	}
	status := int(ucs.StatusOf(r.err))
	switch {
	case r.reply != nil && r.err == nil:
		return fmt.Sprintf("0 %#x %d same", decode(r.reply), len(r.reply))
	case r.isGet && r.err == nil:
		return fmt.Sprintf("0 0x0 %d %s", len(r.buffer.pieces[0]), r.buffer.verify(c, len(r.buffer.pieces[0])))
	case !r.isReceive:
		return strconv.Itoa(status)
	case r.err != nil:
		// After an error the contents of the buffer are undefined.
		return fmt.Sprintf("%d 0x0 0 same", status)
	}
	return fmt.Sprintf("0 %#x %d %s", uint64(r.info.SenderTag), r.info.Length, r.buffer.verify(c, r.info.Length))
}

// sleep runs the command "sleep REQ MS", which waits for a send without spinning.
func (s *server) sleep(args []string) (string, error) {
	number, r, err := s.request(args[0])
	if err != nil {
		return "", err
	}
	n, err := numbers(args[1])
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), milliseconds(n[0]))
	defer cancel()
	delete(s.requests, number)
	if r.handle != nil {
		if r.err = r.handle.Wait(ctx); ctx.Err() != nil {
			return "", errTimeout
		}
	}
	return strconv.Itoa(int(ucs.StatusOf(r.err))), nil
}

func (s *server) cancel(args []string) (string, error) {
	_, r, err := s.request(args[0])
	if err == nil && r.handle != nil {
		s.worker().Cancel(r.handle)
	}
	return "", err
}

// flush runs the command "flush REQ worker|EP", which starts a flush of the worker or an endpoint.
func (s *server) flush(args []string) (string, error) {
	start := s.worker().Flush
	if args[1] != "worker" {
		ep, err := s.endpoint(args[1])
		if err != nil {
			return "", err
		}
		start = ep.Flush
	}
	r := new(request)
	if err := s.newRequest(args[0], r); err != nil {
		return "", err
	}
	r.handle, r.err = start(nil)
	return "", nil
}

// close runs the command "close REQ EP flush|force", which starts to close an endpoint.
func (s *server) close(args []string) (string, error) {
	ep, err := s.endpoint(args[1])
	if err != nil {
		return "", err
	}
	r := new(request)
	if err := s.newRequest(args[0], r); err != nil {
		return "", err
	}
	var params ucp.RequestParams
	if args[2] == "force" {
		params.CloseFlags = ucp.CloseForce
	}
	r.handle, r.err = ep.CloseAsync(&params)
	ep.Endpoint = nil
	return "", nil
}

// failure runs the command "failure EP", which returns the error that the endpoint's error handler
// has received.
func (s *server) failure(args []string) (string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil || s.endpoints[n] == nil {
		return "", fmt.Errorf("no endpoint %s", args[0])
	}
	return strconv.Itoa(int(s.endpoints[n].failure)), nil
}

// failed runs the command "failed EP MS", which waits for the failure of an endpoint.
func (s *server) failed(args []string) (string, error) {
	n, err := numbers(args[1])
	if err != nil {
		return "", err
	}
	if _, err := s.failure(args[:1]); err != nil {
		return "", err
	}
	said := "0"
	err = s.progressUntil(milliseconds(n[0]), func() bool {
		said, _ = s.failure(args[:1])
		return said != "0"
	})
	return said, err
}

// pause runs the command "pause US", which progresses for some microseconds without sleep.
func (s *server) pause(args []string) (string, error) {
	n, err := numbers(args[0])
	if err != nil {
		return "", err
	}
	for end := time.Now().Add(time.Duration(n[0]) * time.Microsecond); time.Now().Before(end); {
		s.progressAll()
	}
	return strconv.FormatInt(time.Now().UnixNano(), 10), nil
}

// ends runs the command "ends", which returns the number of endpoints of all kinds.
func (s *server) ends([]string) (string, error) {
	n := 0
	for _, w := range s.workers {
		n += w.Stats().Endpoints
	}
	return strconv.Itoa(n), nil
}

// transports runs the command "transports EP", which lists the transport and device of each lane.
func (s *server) transports(args []string) (string, error) {
	ep, err := s.endpoint(args[0])
	if err != nil {
		return "", err
	}
	var list []string
	for _, t := range ep.Attr().Transports {
		list = append(list, t.Name+"/"+t.Device)
	}
	return strings.Join(list, " "), nil
}

// progress runs the command "progress MS", which progresses for some milliseconds.
func (s *server) progress(args []string) (string, error) {
	n, err := numbers(args[0])
	if err != nil {
		return "", err
	}
	if err := s.progressUntil(milliseconds(n[0]), func() bool { return false }); err != errTimeout {
		return "", err
	}
	return "", nil
}

// use runs the command "use WORKER", which selects the worker of later commands. It creates worker
// 1 if necessary.
func (s *server) use(args []string) (string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || n > len(s.workers) {
		return "", fmt.Errorf("bad number: %s", args[0])
	}
	if n == len(s.workers) {
		return "", s.addWorker()
	}
	s.used = n
	return "", nil
}

func (s *server) hold([]string) (string, error) {
	s.held = true
	return "", nil
}

// retire runs the command "retire", which destroys worker 1 without closing its endpoints.
func (s *server) retire([]string) (string, error) {
	w, err := s.second()
	if err != nil {
		return "", err
	}
	s.active.releaseKept()
	return "", s.retired(w.Close())
}

// shutdown runs the command "shutdown MS", which shuts down worker 1 within some milliseconds.
func (s *server) shutdown(args []string) (string, error) {
	w, err := s.second()
	if err != nil {
		return "", err
	}
	n, err := numbers(args[0])
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), milliseconds(n[0]))
	defer cancel()
	s.active.releaseKept()
	err = w.Shutdown(ctx)
	if err != nil && ctx.Err() != nil {
		return "", errTimeout
	}
	return "", s.retired(err)
}

func (s *server) second() (*ucp.Worker, error) {
	if len(s.workers) < 2 {
		return nil, errors.New("there is no worker 1")
	}
	return s.workers[1], nil
}

// retired cleans up after the end of worker 1.
func (s *server) retired(err error) error {
	s.workers, s.used = s.workers[:1], 0
	clear(s.keys) // the worker has closed them
	for _, ep := range s.endpoints {
		ep.Endpoint = nil
	}
	return err
}

func (s *server) forget([]string) (string, error) {
	if len(s.workers) > 1 {
		return "", errors.New("there is worker 1")
	}
	for _, r := range s.requests {
		if err := r.buffer.release(); err != nil {
			return "", err
		}
	}
	clear(s.requests)
	s.active = activeMessages{}
	return "", nil
}

func (s *server) exit([]string) (string, error) {
	var err error
	for _, w := range s.workers {
		err = errors.Join(err, w.Close())
	}
	for _, m := range s.memories {
		err = errors.Join(err, m.Close())
	}
	err = errors.Join(err, s.context.Close())
	s.workers = nil
	return "", err
}

func milliseconds(n uint64) time.Duration { return time.Duration(n) * time.Millisecond }
