//go:build linux

package ud

import "github.com/ucx-go/ucx/uct/ib/verbs"

// pollSends handles completions of sends and returns their number.
func (i *iface) pollSends() int {
	wc, _ := i.Sent()
	for k := range wc {
		i.sq.complete(uint32(wc[k].ID))
		if wc[k].Status != verbs.WCSuccess {
			i.broken = true
		}
	}
	return len(wc)
}

// drain polls until done returns true, maxDrain times at most, so that the device can complete its
// requests. That is a matter of microseconds, as no peer has to answer.
func (i *iface) drain(done func() bool) {
	for n := 0; n < maxDrain && !done(); n++ {
		i.pollSends()
		i.retired.release(i)
	}
}

const maxDrain = 10000
