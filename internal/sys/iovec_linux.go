package sys

import "golang.org/x/sys/unix"

// MaxIOVecs is the number of entries that the kernel accepts in one call (UIO_MAXIOV in
// linux/uio.h).
const MaxIOVecs = 1024

// IOVecs is a list of buffers for SendVec and RecvVec. Its owner reuses it for each message, so
// that a call allocates nothing once the list has grown to its usual length. It belongs to one
// goroutine. The zero value is empty.
type IOVecs struct {
	vec  []unix.Iovec
	head int // entries of vec that Advance has passed
	left int // bytes in the entries from head on
}

// Add appends b; an empty b adds nothing. The list keeps b reachable until Advance passes it or
// Reset drops it; until then the caller must not touch its bytes.
func (v *IOVecs) Add(b []byte) {
	if len(b) == 0 {
		return
	}
	e := unix.Iovec{Base: &b[0]}
	e.SetLen(len(b))
	v.vec = append(v.vec, e)
	v.left += len(b)
}

// Len returns the number of entries left.
func (v *IOVecs) Len() int { return len(v.vec) - v.head }

// Bytes returns the number of bytes left.
func (v *IOVecs) Bytes() int { return v.left }

// Advance removes n bytes, at most Bytes, from the front, because a call has sent or filled them.
// When no bytes are left the list is empty, as after Reset.
func (v *IOVecs) Advance(n int) {
	v.left -= n
	for n > 0 {
		e := &v.vec[v.head]
		if l := int(e.Len); n >= l {
			n -= l
			*e = unix.Iovec{}
			v.head++
		} else {
			advance(e, n)
			n = 0
		}
	}
	if v.left == 0 {
		v.vec, v.head = v.vec[:0], 0
	}
}

// Reset empties the list. It drops the buffers and keeps the list's own memory.
func (v *IOVecs) Reset() {
	clear(v.vec[v.head:])
	v.vec, v.head, v.left = v.vec[:0], 0, 0
}

// fill makes a message header refer to the entries that are left.
func (v *IOVecs) fill(h *unix.Msghdr) {
	if n := v.Len(); n > 0 {
		h.Iov = &v.vec[v.head]
		h.SetIovlen(min(n, MaxIOVecs))
	}
}
