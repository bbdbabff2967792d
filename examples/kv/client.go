package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/netip"
	"runtime"

	"github.com/ucx-go/ucx/ucp"
)

// client reads and writes a table, by any number of goroutines.
type client struct {
	shared
	ep    *ucp.Endpoint
	key   *ucp.Rkey
	table tableLocation
}

var (
	errNoKey   = errors.New("no such key")
	errChanged = errors.New("the value has another version")
	errFull    = errors.New("the table is full")
)

// dial connects to the server at an address.
func dial(ctx context.Context, addr netip.AddrPort) (*client, error) {
	w, err := open()
	if err != nil {
		return nil, err
	}
	c := &client{shared: w}
	if err := c.open(ctx, addr); err != nil {
		w.close()
		return nil, err
	}
	return c, nil
}

func (c *client) open(ctx context.Context, addr netip.AddrPort) (err error) {
	answers, err := c.worker.NewAMQueue(ucp.AMQueueParams{ID: idHere})
	if err != nil {
		return err
	}
	defer answers.Close()
	// A failure of the endpoint ends the waits for an answer.
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if c.ep, err = c.worker.NewEndpoint(ucp.EndpointParams{
		RemoteAddr: addr,
		ErrMode:    ucp.ErrModePeer,
		OnError:    func(_ *ucp.Endpoint, err error, _ any) { fail(err) },
	}); err != nil {
		return err
	}
	if err := c.ep.AMSendWait(ctx, idWhere, nil, nil, ucp.AMSendReply); err != nil {
		return err
	}
	m, err := answers.Next(ctx)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer m.Release()
	var ok bool
	if c.table, ok = parsePlace(m.Header()); !ok {
		return errors.New("the server has not sent the address of its table")
	}
	c.key, err = c.ep.UnpackRkey(m.Data())
	return err
}

// close ends the connection. No operation may be running.
func (c *client) close(ctx context.Context) error {
	err := errors.Join(c.key.Close(), c.ep.Shutdown(ctx))
	c.shared.close()
	return err
}

// get returns the value of a key, and its version.
func (c *client) get(ctx context.Context, key string) (string, uint64, error) {
	_, e, err := c.find(ctx, []byte(key))
	if err != nil {
		return "", 0, err
	}
	if e.version == 0 {
		return "", 0, errNoKey
	}
	return string(e.value), e.version, nil
}

// put sets the value of a key, and returns the new version.
func (c *client) put(ctx context.Context, key, value string) (uint64, error) {
	return c.change(ctx, key, value, func(uint64) bool { return true })
}

// swap sets the value of a key if the key has the given version, and returns the new version.
// Version 0 means that the key is not in the table. If the key has another version, the error is
// errChanged.
func (c *client) swap(ctx context.Context, key string, version uint64, value string) (uint64, error) {
	return c.change(ctx, key, value, func(v uint64) bool { return v == version })
}

// change sets the value of a key if agrees returns true for the current version, and returns the
// new version. Otherwise the error is errChanged.
func (c *client) change(ctx context.Context, key, value string, agrees func(version uint64) bool) (uint64, error) {
	e := entry{key: []byte(key), value: []byte(value)}
	if err := e.check(); err != nil {
		return 0, err
	}
	for {
		at, found, err := c.find(ctx, e.key)
		if err != nil {
			return 0, err
		}
		if !agrees(found.version) {
			return 0, errChanged
		}
		taken, err := ucp.CompareSwapWait[uint64](ctx, c.ep, at, c.key, found.version, found.version+1)
		if err != nil {
			return 0, err
		}
		if taken == found.version {
			e.version = found.version + 2
			return e.version, c.write(context.WithoutCancel(ctx), at, e) // other clients wait for the write
		}
	}
}

// write writes an entry into a locked slot: first all but the version, then a flush, after which
// the entry has arrived. Then it increments the version, which unlocks the slot.
func (c *client) write(ctx context.Context, at uint64, e entry) error {
	b := e.bytes()
	if err := c.ep.PutWait(ctx, b[8:], at+8, c.key); err != nil {
		return err
	}
	if err := c.ep.FlushWait(ctx); err != nil {
		return err
	}
	_, err := ucp.FetchAddWait[uint64](ctx, c.ep, at, c.key, 1)
	return err
}

// find returns the address of a key's slot and the entry in it, or the address of the free slot in
// which the key would be stored, with an empty entry.
func (c *client) find(ctx context.Context, key []byte) (uint64, entry, error) {
	b := make([]byte, slotSize)
	first := home(key, c.table.slots)
	for k := range c.table.slots {
		at := c.table.addr + (first+k)%c.table.slots*slotSize
		e, err := c.read(ctx, at, b)
		if err != nil || e.version == 0 || bytes.Equal(e.key, key) {
			return at, e, err
		}
	}
	return 0, entry{}, errFull
}

// read reads a slot until the copy is consistent. The entry refers to b.
func (c *client) read(ctx context.Context, at uint64, b []byte) (entry, error) {
	for {
		if err := c.ep.GetWait(ctx, b, at, c.key); err != nil {
			return entry{}, err
		}
		e, err := parseSlot(b)
		if err != errTorn {
			return e, err
		}
		if err := ctx.Err(); err != nil {
			return entry{}, err
		}
		runtime.Gosched() // the writer may be a goroutine of this process
	}
}
