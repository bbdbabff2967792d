//go:build linux

package ud

import "github.com/ucx-go/ucx/uct"

// What is done in the background: to take what has arrived, to acknowledge, connect and
// send again. Users are not called: messages are put off as those of a paused connection
// are, and whatever is to be told waits in limbo.

const offlinePolls = 4 // times that receives are polled at a time (RX_ASYNC_MAX_POLL)

// watched makes an interface one that is looked after in the background.
func watched(i *iface) (uct.Iface, error) {
	b := new(background)
	i.back = b
	if err := b.start(i.work); err != nil {
		return nil, err
	}
	g := &guarded{i, b}
	i.Worker.AddProgress(g)
	return g, nil
}

// work does what cannot wait.
func (i *iface) work() {
	if i.closed || i.dead != nil {
		return
	}
	i.offline = true
	i.weigh(0)
	defer func() {
		i.offline = false
		i.weigh(0)
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
