//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
)

// retiredItems is what nobody needs any more and the device may still be reading: slots of
// messages that were posted twice, or that their peer has not acknowledged and never
// will; memory of the caller; and address handles. In the order in which they came they
// go when their requests are over.
type retiredItems struct {
	list []retiredItem
	head int
}

type retiredItem struct {
	seq  uint32          // of the request
	slot int32           // none: -1
	comp *uct.Completion // to be told, without a slot
	err  error           // with which
	conn *conn           // that it is of, if somebody is to be told
	ah   *ib.AH
}

func (l *retiredItems) empty() bool { return l.head == len(l.list) }

// ready reports whether somebody waits there who can go.
func (l *retiredItems) ready(i *iface) bool {
	return l.head < len(l.list) && i.sq.over(l.list[l.head].seq)
}

func (l *retiredItems) add(d retiredItem) {
	if d.conn != nil {
		d.conn.waits++
	}
	l.list = append(l.list, d)
}

// release lets those go whose requests are over. Who is told may send and close.
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
			d.ah.Done() // of a device that is gone nothing is left
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
