// Partner plays one side of the example programs of C UCX, ucp_hello_world and ucp_client_server:
//
//	partner hello connect|serve ADDRESS:PORT SIZE [dies]
//	partner stream|tag|am connect|serve ADDRESS:PORT ITERATIONS PIECES LENGTH fin|plain
//
// A server first prints its address. Partner exits with success if all messages are as expected.
// With the argument dies, the other side is going to die, and the endpoint's error handler must be
// called.
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

// limit bounds the run time of the program.
const limit = 60 * time.Second

// partner is the side of an example program that this program plays.
type partner struct {
	ctx     context.Context
	worker  *ucp.Worker
	ep      *ucp.Endpoint
	failure error // the error that the endpoint's error handler received
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
			numbers[i], _ = strconv.Atoi(args[i]) // words that are not numbers give 0
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
			return errors.New("no error reported for the lost peer")
		}
		p.worker.Progress()
	}
	return nil
}

// text returns the text that the programs send: letters in order, and a zero byte.
func text(size int) []byte {
	b := make([]byte, size)
	for i := range max(size-1, 0) {
		b[i] = 'A' + byte(i%26)
	}
	return b
}

// listening prints the server's address.
func listening(addr any) { fmt.Println("listening", addr) }
