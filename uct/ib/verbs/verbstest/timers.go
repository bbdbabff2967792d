//go:build linux

package verbstest

import "time"

// When what cannot go on is tried again, while Serve is in force.

// postpone says when what cannot go on is tried again: after the time that the receiver
// asks for, or that an answer has to come in (InfiniBand Architecture Specification
// 9.7.5.2.8 and 9.7.6.1.3).
func (q *qp) postpone(status uint32) {
	if q.f.k.net.sched.work != serving {
		return
	}
	d := 4096 * time.Nanosecond << (q.attr.Timeout & 31)
	if q.attr.Timeout == 0 {
		d = time.Second
	}
	if status == wcRNRRetryExc {
		d = rnrTimers[q.attr.MinRnrTimer&31]
	}
	q.later = time.Now().Add(d)
}

// await says when what waits for something else is looked at again.
func (q *qp) await() {
	if q.f.k.net.sched.work == serving && q.later.IsZero() {
		q.later = time.Now().Add(longest)
	}
}

// rnrTimers are the times by their number; InfiniBand Architecture Specification table 45.
var rnrTimers = func() (t [32]time.Duration) {
	const unit = 10 * time.Microsecond
	for i, n := range [32]time.Duration{
		65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
		1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	} {
		t[i] = n * unit
	}
	return t
}()
