// Gopeer is the peer of the interop suite over package ucp: it runs operations on commands from
// standard input. The comment of package interop describes the commands; testdata/cpeer is its
// counterpart over C UCX.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

const (
	maxLine = 1 << 20 // the longest command, including worker addresses
	spins   = 200     // empty progress rounds before the peer sleeps
)

// server holds the objects to which commands refer.
type server struct {
	context         *ucp.Context
	workers         []*ucp.Worker
	used            int // the index of the worker that commands use
	generic         *ucp.GenericType
	endpoints       map[int]*endpoint
	requests        map[int]*request
	message         *ucp.TagMessage // message that the last probe has taken
	canceledBuffers []*buffer       // buffers of canceled receives
	active          activeMessages
	clients         clients
	memories        map[uint64]*memory
	keys            map[uint64]*ucp.Rkey

	lines <-chan string // commands; closed at the end of input
	idle  int           // consecutive empty progress rounds
	held  bool          // make no progress until the next command
}

// endpoint is an endpoint and the error that its error handler received.
type endpoint struct {
	*ucp.Endpoint
	failure ucs.Status
}

// request is a started operation. A nil handle means that it is done.
type request struct {
	handle    *ucp.Request
	err       error // error of the call that started the operation
	info      ucp.TagRecvInfo
	isReceive bool
	untagged  bool // the operation receives an active message or from a stream
	isGet     bool
	buffer    *buffer
	reply     []byte // reply buffer of a fetching atomic operation, else nil
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("gopeer: ")
	s, err := newServer()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready Go")
	for !s.exited() {
		line, open := s.nextLine()
		if !open {
			return
		}
		reply, err := s.run(strings.Fields(line))
		switch {
		case err == errTimeout:
			reply = "timeout"
		case err != nil:
			reply = "err " + err.Error()
		default:
			reply = strings.TrimRight("ok "+reply, " ")
		}
		if _, err := fmt.Println(reply); err != nil {
			return // the driver is gone
		}
	}
}

// newServer opens a context with the settings of the environment.
func newServer() (*server, error) {
	params := ucp.ContextParams{
		Features: ucp.FeatureTag | ucp.FeatureRMA | ucp.FeatureAMO32 | ucp.FeatureAMO64 | ucp.FeatureStream,
		Name:     "gopeer",
	}
	if os.Getenv("PEER_NO_AM") == "" {
		params.Features |= ucp.FeatureAM
	}
	if os.Getenv("GOPEER_TLS") != "" {
		params.TLS = certtest.New().Mutual("gopeer")
	}
	context, err := ucp.NewContext(params, nil)
	if err != nil {
		return nil, err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, maxLine)
		for in.Scan() {
			lines <- in.Text()
		}
	}()
	s := &server{
		context:   context,
		generic:   ucp.NewGeneric(copyType{}),
		endpoints: make(map[int]*endpoint),
		requests:  make(map[int]*request),
		memories:  make(map[uint64]*memory),
		keys:      make(map[uint64]*ucp.Rkey),
		lines:     lines,
	}
	return s, s.addWorker()
}

// addWorker creates a worker whose client id is the number in PEER_CLIENT_ID, and makes it the one
// that commands use.
func (s *server) addWorker() error {
	var params ucp.WorkerParams
	if id := os.Getenv("PEER_CLIENT_ID"); id != "" {
		n, err := numbers(id)
		if err != nil {
			return err
		}
		params.ClientID = n[0]
	}
	w, err := s.context.NewWorker(params)
	if err == nil {
		s.used = len(s.workers)
		s.workers = append(s.workers, w)
	}
	return err
}

// worker returns the worker that commands use.
func (s *server) worker() *ucp.Worker { return s.workers[s.used] }

// progressAll progresses all workers.
func (s *server) progressAll() (n int) {
	for _, w := range s.workers {
		n += w.Progress()
	}
	return n
}

// nextLine makes progress until a command arrives.
func (s *server) nextLine() (line string, open bool) {
	if s.held {
		s.held = false
		line, open = <-s.lines
		return line, open
	}
	for {
		select {
		case line, open = <-s.lines:
			return line, open
		default:
		}
		if s.progressAll() > 0 {
			s.idle = 0
		} else if s.idle++; s.idle > spins {
			select {
			case line, open = <-s.lines:
				return line, open
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// progressUntil makes progress until done reports true. It returns errTimeout if the time is up
// first.
func (s *server) progressUntil(limit time.Duration, done func() bool) error {
	end := time.Now().Add(limit)
	for !done() {
		if time.Now().After(end) {
			return errTimeout
		}
		if s.progressAll() > 0 {
			s.idle = 0
		} else if s.idle++; s.idle > spins {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// exited reports whether the exit command has run.
func (s *server) exited() bool { return s.workers == nil }
