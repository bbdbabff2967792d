package proto

// EstimateMessage is the time that a message of n bytes of contiguous memory takes, in the way
// that its length is sent: overheads, latency, and the bytes. More bytes never take less: where
// a way is chosen that makes long messages cheaper than shorter ones that must not use it,
// the time of those counts.
func EstimateMessage(in *ProtoInput, form MessageForm, n int) (t Seconds) {
	m := newModel(in)
	c := m.messageChoice(&form, DataContig, 0)
	c.ranges(func(lo, hi int) {
		if lo > n {
			return
		}
		if best, _ := c.best(lo, hi); best >= 0 {
			t = max(t, sizedTime(c.options[best].cost, min(n, hi)))
		}
	})
	return t
}
