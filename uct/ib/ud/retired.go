//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/handles"
)

// retiredItems is a queue of items that are not needed any more but that the device may still be
// reading: slots of messages that were posted twice, or that their peer will never acknowledge;
// memory of the caller; and address handles. Items are released in the order in which they were
// added, each when its request is complete.
type retiredItems struct {
	list []retiredItem
	head int
}

type retiredItem struct {
	seq  uint32          // number of the request that has to complete
	slot int32           // -1: none
	comp *uct.Completion // to complete, if there is no slot
	err  error           // result of the completion
	conn *conn           // counts the item in conn.waits; nil if there is no completion
	ah   *handles.Handle
}

func (l *retiredItems) empty() bool { return l.head == len(l.list) }

// ready reports whether the first item can be released.
func (l *retiredItems) ready(i *iface) bool {
	return l.head < len(l.list) && i.sq.over(l.list[l.head].seq)
}

func (l *retiredItems) add(d retiredItem) {
	if d.conn != nil {
		d.conn.waits++
	}
	l.list = append(l.list, d)
}

// release releases the items whose requests are complete. Their completion callbacks may send and
// close.
func (l *retiredItems) release(i *iface) {
	for l.ready(i) {
		d := l.list[l.head]
		l.list[l.head] = retiredItem{}
		if l.head++; l.head == len(l.list) {
			l.list, l.head = l.list[:0], 0
		} else if l.head > 1024 && l.head > len(l.list)/2 {
			l.list = append(l.list[:0], l.list[l.head:]...)
			l.head = 0
		}
		if d.conn != nil {
			d.conn.waits--
		}
		if d.ah != nil {
			d.ah.Done() // an error means that the device is gone, and the handle with it
		}
		comp := d.comp
		if d.slot >= 0 {
			comp = i.slots.of(d.slot).comp
			i.slots.put(d.slot)
		}
		if comp != nil {
			comp.Done(d.err)
		}
	}
}
