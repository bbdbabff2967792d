// Partner talks to the example programs of C UCX, ucp_hello_world and
// ucp_client_server, in the place of one of their two sides:
//
//	partner hello connect|serve ADDRESS:PORT SIZE [dies]
//	partner stream|tag|am connect|serve ADDRESS:PORT ITERATIONS PIECES LENGTH fin|plain
//
// A server first prints where it listens. It ends with success if all was said and heard
// as it should be; with dies the other is to die, and that is what must be noticed.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// limit is a guard against a hang.
const limit = 60 * time.Second

// partner is our side of a conversation.
type partner struct {
	ctx     context.Context
	worker  *ucp.Worker
	ep      *ucp.Endpoint
	failure error // what the endpoint's error handler was told
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("partner: ")
	if len(os.Args) < 5 {
		log.Fatal("not enough arguments")
	}
	if err := run(os.Args[1], os.Args[2] == "serve", os.Args[3], os.Args[4:]); err != nil {
		log.Fatal(err)
	}
}

var features = map[string]ucp.Features{
	"hello": ucp.FeatureTag | ucp.FeatureWakeup, "stream": ucp.FeatureStream, "tag": ucp.FeatureTag, "am": ucp.FeatureAM,
}

func run(way string, serves bool, addr string, args []string) (err error) {
	c, err := ucp.NewContext(ucp.ContextParams{Features: features[way]}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	w, err := c.NewWorker(ucp.WorkerParams{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p := &partner{ctx: ctx, worker: w}

	numbers := make([]int, 3)
	for i := range numbers {
		if i < len(args) {
			numbers[i], _ = strconv.Atoi(args[i]) // other words are no numbers
		}
	}
	last := args[len(args)-1]
	if way == "hello" {
		return p.hello(serves, addr, numbers[0], last == "dies")
	}
	t := &talk{partner: p, way: way, iterations: numbers[0], pieces: numbers[1], length: numbers[2], fin: last == "fin"}
	return t.run(serves, addr)
}

// onError is the error handler of the endpoint.
func (p *partner) onError(_ *ucp.Endpoint, err error, _ any) { p.failure = err }

// lost waits until the endpoint has failed.
func (p *partner) lost() error {
	for p.failure == nil {
		if p.ctx.Err() != nil {
			return errors.New("nobody noticed that the other side is gone")
		}
		p.worker.Progress()
	}
	return nil
}

// text is what the programs send: letters in order, and a zero byte.
func text(size int) []byte {
	b := make([]byte, size)
	for i := range max(size-1, 0) {
		b[i] = 'A' + byte(i%26)
	}
	return b
}

// listening tells where.
func listening(addr any) { fmt.Println("listening", addr) }
