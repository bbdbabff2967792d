//go:build linux

package ud

import "github.com/ucx-go/ucx/uct"

// Work of the background goroutine: receiving packets, acknowledging, connecting and repeating. No
// callback is called: messages are kept as those of a paused connection are, and completions wait in
// iface.retired.

const offlinePolls = 4 // polls of the receive queue in one run (RX_ASYNC_MAX_POLL)

// watched starts the background goroutine of an interface and returns the wrapped interface.
func watched(i *iface) uct.Iface {
	i.back = new(background)
	i.back.start(i.work)
	g := &guarded{i, i.back}
	i.Worker.AddProgress(g)
	return g
}

// work does the work of the background goroutine, with the lock held.
func (i *iface) work() {
	if i.closed || i.dead != nil {
		return
	}
	i.offline = true
	i.addLateBytes(0)
	defer func() {
		i.offline = false
		i.addLateBytes(0)
	}()
	now := int64(i.now())
	i.flow.Clock(now)
	i.pollSends()
	for range offlinePolls {
		wc, full := i.Received()
		for k := range wc {
			i.received(&wc[k])
		}
		i.refill()
		if !full {
			break
		}
	}
	if i.broken {
		return
	}
	if due, ok := i.flow.Next(now); ok && due <= now {
		i.inside = true
		i.flow.Tick()
		i.inside = false
	}
	i.starved = !i.flow.Dispatch()
	i.alarm.due = true
}
