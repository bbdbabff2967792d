//go:build linux

package rc

import "github.com/ucx-go/ucx/uct/ib/verbs"

// qpnTable finds endpoints by the numbers of their queue pairs, which the device chooses. It is
// a hash table with linear probing. The zero value is empty.
type qpnTable struct {
	slots []qpnSlot // a power of two; at least half of them are free
	n     int
}

type qpnSlot struct {
	ep  *endpoint // nil: free
	qpn verbs.QPN
}

// home returns the preferred slot of a number.
func (t *qpnTable) home(qpn verbs.QPN) int {
	return int(uint32(qpn)*0x9e3779b1>>8) & (len(t.slots) - 1)
}

// find returns the endpoint of a number, nil if there is none.
func (t *qpnTable) find(qpn verbs.QPN) *endpoint {
	if t.n == 0 {
		return nil
	}
	for k := t.home(qpn); t.slots[k].ep != nil; k = (k + 1) & (len(t.slots) - 1) {
		if t.slots[k].qpn == qpn {
			return t.slots[k].ep
		}
	}
	return nil
}

// add adds an endpoint under a number that is not in the table.
func (t *qpnTable) add(qpn verbs.QPN, ep *endpoint) {
	if 2*(t.n+1) > len(t.slots) {
		old := t.slots
		t.slots, t.n = make([]qpnSlot, max(16, 2*len(old))), 0
		for _, s := range old {
			if s.ep != nil {
				t.put(s)
			}
		}
	}
	t.put(qpnSlot{ep, qpn})
}

func (t *qpnTable) put(s qpnSlot) {
	k := t.home(s.qpn)
	for t.slots[k].ep != nil {
		k = (k + 1) & (len(t.slots) - 1)
	}
	t.slots[k] = s
	t.n++
}

// remove removes a number. Entries that it displaced move closer to their preferred slots.
func (t *qpnTable) remove(qpn verbs.QPN) {
	if t.find(qpn) == nil {
		return
	}
	mask := len(t.slots) - 1
	hole := t.home(qpn)
	for t.slots[hole].qpn != qpn {
		hole = (hole + 1) & mask
	}
	for k := (hole + 1) & mask; t.slots[k].ep != nil; k = (k + 1) & mask {
		if (k-t.home(t.slots[k].qpn))&mask >= (k-hole)&mask {
			t.slots[hole], hole = t.slots[k], k
		}
	}
	t.slots[hole] = qpnSlot{}
	t.n--
}
