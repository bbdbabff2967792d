package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/ucx-go/ucx/ucp"
)

// Tags of the messages between the two processes.
const (
	tagOrder ucp.Tag = iota + 1 // client to server: an order
	tagData
	tagEcho // server to client: data sent back, or "all received"
)

// pattern is the pattern in which messages are exchanged.
type pattern uint32

const (
	pingPong pattern = iota // one at a time, each sent back
	stream                  // as many as possible in one direction
	finish                  // the test is over
)

// order tells the server what the client will do.
type order struct {
	pattern pattern
	size    int // bytes of each message
	count   int // messages
}

const orderSize = 12

func (o order) bytes() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(o.pattern))
	b = binary.LittleEndian.AppendUint32(b, uint32(o.size))
	return binary.LittleEndian.AppendUint32(b, uint32(o.count))
}

// maxSize bounds the size of messages, for which the server allocates memory.
const maxSize = 64 << 20

func parseOrder(b []byte) (order, error) {
	if len(b) != orderSize {
		return order{}, errors.New("malformed order")
	}
	o := order{
		pattern: pattern(binary.LittleEndian.Uint32(b)),
		size:    int(binary.LittleEndian.Uint32(b[4:])),
		count:   int(binary.LittleEndian.Uint32(b[8:])),
	}
	if o.pattern > finish || o.size > maxSize {
		return order{}, fmt.Errorf("impossible order %+v", o)
	}
	return o, nil
}

// window returns how many messages of a size are in flight in a stream.
func window(size int) int { return max(4, min(32, 4<<20/max(size, 1))) }

// connect exchanges worker addresses, one hexadecimal line each way, and returns
// an endpoint to the other side.
func connect(w *ucp.Worker, in io.Reader, out io.Writer) (*ucp.Endpoint, error) {
	own, err := w.Address(0)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(out, hex.EncodeToString(own)); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("no address from the other process: %w", err)
	}
	other, err := hex.DecodeString(line[:len(line)-1])
	if err != nil {
		return nil, err
	}
	return w.NewEndpoint(ucp.EndpointParams{Address: other, ErrMode: ucp.ErrModePeer})
}

// ring keeps the requests of a stream: at most one window of them in flight.
type ring []*ucp.Request

// put starts request i. Before that, it waits for the request that was started one window before,
// whose slot it reuses.
func (r ring) put(ctx context.Context, i int, start func(slot int) (*ucp.Request, error)) error {
	slot := i % len(r)
	if err := r[slot].Wait(ctx); err != nil {
		return err
	}
	r[slot].Free()
	var err error
	r[slot], err = start(slot)
	return err
}

// drain waits for all requests.
func (r ring) drain(ctx context.Context) error {
	for i, request := range r {
		if err := request.Wait(ctx); err != nil {
			return err
		}
		request.Free()
		r[i] = nil
	}
	return nil
}
