// Gopeer is the peer of the interop suite over package ucp: it carries out
// operations by commands on standard input. The comment of package interop
// describes them; testdata/cpeer is its counterpart over C UCX.
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
	maxLine = 1 << 20 // a command, worker addresses included
	spins   = 200     // empty progress rounds before the peer sleeps
)

// server holds the objects that commands name.
type server struct {
	context   *ucp.Context
	worker    *ucp.Worker
	generic   *ucp.GenericType
	endpoints map[int]*endpoint
	requests  map[int]*request
	held      *ucp.TagMessage // taken by the last probe
	memories  map[uint64]*memory
	keys      map[uint64]*ucp.Rkey

	lines <-chan string // commands; closed at the end of input
	idle  int           // empty progress rounds in a row
}

// endpoint is an endpoint and what its error handler was told.
type endpoint struct {
	*ucp.Endpoint
	failure ucs.Status
}

// request is a started operation. A nil handle means that it is done.
type request struct {
	handle    *ucp.Request
	err       error // of the call that started it
	info      ucp.TagRecvInfo
	isReceive bool
	isGet     bool
	buffer    *buffer
	reply     []byte // of an atomic operation, nil if it has none
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

// newServer opens UCX with the settings of the environment.
func newServer() (*server, error) {
	params := ucp.ContextParams{
		Features: ucp.FeatureTag | ucp.FeatureRMA | ucp.FeatureAMO32 | ucp.FeatureAMO64, Name: "gopeer",
	}
	if os.Getenv("GOPEER_TLS") != "" {
		params.TLS = certtest.New().Mutual("gopeer")
	}
	context, err := ucp.NewContext(params, nil)
	if err != nil {
		return nil, err
	}
	worker, err := context.NewWorker(ucp.WorkerParams{})
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
	return &server{
		context:   context,
		worker:    worker,
		generic:   ucp.NewGeneric(copyType{}),
		endpoints: make(map[int]*endpoint),
		requests:  make(map[int]*request),
		memories:  make(map[uint64]*memory),
		keys:      make(map[uint64]*ucp.Rkey),
		lines:     lines,
	}, nil
}

// nextLine makes progress until there is a command.
func (s *server) nextLine() (line string, open bool) {
	for {
		select {
		case line, open = <-s.lines:
			return line, open
		default:
		}
		if s.worker.Progress() > 0 {
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

// progressUntil makes progress until done reports true or the time is up; it
// returns errTimeout then.
func (s *server) progressUntil(limit time.Duration, done func() bool) error {
	end := time.Now().Add(limit)
	for !done() {
		if time.Now().After(end) {
			return errTimeout
		}
		if s.worker.Progress() > 0 {
			s.idle = 0
		} else if s.idle++; s.idle > spins {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// exited reports whether the exit command was carried out.
func (s *server) exited() bool { return s.worker == nil }
