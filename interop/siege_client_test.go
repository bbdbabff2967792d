//go:build linux

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// siegeOrders is the orders of a client or an attacker, in its environment.
type siegeOrders struct {
	Server siegeReady
	Number ucp.Tag // of the client, and of its word in the server's memory

	Target siegeTarget
	Attack string
	From   string
	Amount int
	For    time.Duration
}

const siegeOrderVar = "UCX_SIEGE_ORDERS"

func orders() (o siegeOrders, err error) {
	err = json.Unmarshal([]byte(os.Getenv(siegeOrderVar)), &o)
	return o, err
}

// siegeReport is the result of a client.
type siegeReport struct {
	Operations    int
	P50, P99, Max time.Duration // times of an operation
}

// siegeMe is the first message of a client to the test.
type siegeMe struct{ UUID uint64 }

// siegeClient is a good client: it checks every byte of every answer.
func siegeClient() error {
	o, err := orders()
	if err != nil {
		return err
	}
	_, w, end, err := siegeWorker()
	if err != nil {
		return err
	}
	defer end()
	var lost error
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: o.Server.Address, ErrMode: ucp.ErrModePeer,
		OnError: func(_ *ucp.Endpoint, err error, _ any) { lost = err }})
	if err != nil {
		return err
	}
	key, err := ep.UnpackRkey(o.Server.Key)
	if err != nil {
		return err
	}
	own, err := w.Address(0)
	if err != nil {
		return err
	}
	s := &siegeVisitor{w: w, ep: ep, key: key, number: o.Number, word: o.Server.Memory + 4096*uint64(o.Number)}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute+o.For)
	defer cancel()
	if err := ep.TagSendWait(ctx, siegeHello|o.Number, own); err != nil {
		return err
	}
	if err := s.round(ctx); err != nil { // now the server knows the client
		return fmt.Errorf("the first round: %w", err)
	}
	if err := answer(siegeMe{UUID: w.Attr().UID}); err != nil {
		return err
	}
	lines := commands(func() {})
	for told := false; !told || len(s.took) < siegeLeast; {
		if err := s.round(ctx); err != nil {
			return errors.Join(err, lost, fmt.Errorf("after %d operations", len(s.took)))
		}
		select {
		case <-lines:
			told = true
		default:
		}
	}
	return answer(s.report())
}

// siegeLeast is the minimum number of operations of a client: an attack may be over before a slow
// machine has done one.
const siegeLeast = 10

// siegeVisitor is a client in operation.
type siegeVisitor struct {
	w       *ucp.Worker
	ep      *ucp.Endpoint
	key     *ucp.Rkey
	number  ucp.Tag
	word    uint64 // address of its part of the server's memory
	counted uint64
	took    []time.Duration
}

// round does one operation of each kind.
func (s *siegeVisitor) round(ctx context.Context) error {
	for _, op := range []func(context.Context) error{s.echo, s.access, s.count} {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		start := time.Now()
		err := op(ctx)
		cancel()
		if err != nil {
			return err
		}
		s.took = append(s.took, time.Since(start))
	}
	return nil
}

// random returns a random message.
func random(most int) []byte {
	b := make([]byte, 1+rand.IntN(most))
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// echo sends a message and compares the answer.
func (s *siegeVisitor) echo(ctx context.Context) error {
	most := 4 << 10
	if rand.IntN(8) == 0 {
		most = siegeLongest
	}
	want := random(most)
	if err := s.ep.TagSendWait(ctx, siegeEcho|s.number, want); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	got := make([]byte, siegeLongest)
	info, err := s.w.TagRecvWait(ctx, siegeEcho|s.number, ucp.FullMask, got)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if !bytes.Equal(got[:info.Length], want) {
		return fmt.Errorf("%d bytes came back as %d others", len(want), info.Length)
	}
	return nil
}

// access writes the server's memory and reads it back.
func (s *siegeVisitor) access(ctx context.Context) error {
	want := random(2048)
	if err := s.ep.PutWait(ctx, want, s.word+8, s.key); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	got := make([]byte, len(want))
	if err := s.ep.GetWait(ctx, got, s.word+8, s.key); err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if !bytes.Equal(got, want) {
		return errors.New("what was written is not what is read")
	}
	return nil
}

// count adds to a word in the server's memory.
func (s *siegeVisitor) count(ctx context.Context) error {
	old, err := ucp.FetchAddWait[uint64](ctx, s.ep, s.word, s.key, 1)
	if err != nil {
		return fmt.Errorf("fetch and add: %w", err)
	}
	if old != s.counted {
		return fmt.Errorf("the word is %d, want %d", old, s.counted)
	}
	s.counted++
	return nil
}

func (s *siegeVisitor) report() siegeReport {
	slices.Sort(s.took)
	n := len(s.took)
	return siegeReport{Operations: n, P50: s.took[n/2], P99: s.took[n*99/100], Max: s.took[n-1]}
}
