package proto

// EstimateMessage returns the time that a message of n bytes of contiguous memory takes
// with the protocol for its length: overheads, latency, and the bytes. The estimate never
// decreases with n: if a protocol makes long messages cheaper than shorter ones that must
// not use it, the time of the shorter ones counts.
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
