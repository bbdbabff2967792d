//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// admit says whether an operation may be posted.
func (e *endpoint) admit() error {
	if e.room > 0 && e.iface.credits > 0 && e.iface.grants.Len() == 0 && e.pending.Empty() {
		return nil // there is room only for who has not failed
	}
	return e.admitSlow()
}

//go:noinline
func (e *endpoint) admitSlow() error {
	if err := e.admitAny(); err != nil {
		return err
	}
	if e.pending.Blocks() {
		return ucs.ErrNoResource
	}
	return nil
}

// admitAny is admit for what need not wait behind requests. Grants go first.
func (e *endpoint) admitAny() error {
	if !e.ended() {
		e.iface.sendGrants()
	}
	switch {
	case e.failed != nil: // perhaps by that
		return e.failed
	case e.room <= 0 || e.iface.credits <= 0:
		return ucs.ErrNoResource
	}
	return nil
}

// Room implements kit.Sender.
func (e *endpoint) Room() kit.Room {
	i := e.iface
	switch {
	case e.failed != nil || e.room <= 0 || e.stuck:
		return kit.Full
	case i.credits <= 0 || i.bufs.Empty() || i.hdrs.Empty():
		return kit.Exhausted
	}
	return kit.Open
}
