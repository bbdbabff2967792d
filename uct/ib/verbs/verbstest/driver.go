//go:build linux

package verbstest

import (
	"syscall"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// What depends on whose device it is: the driver's part of each call, and how work
// requests and completions lie in queues. Everything else is the network's.

// personality makes a driver for each time that the device is opened.
type personality interface {
	// driver is the number of the kernel's driver, abi the version of its interface.
	driver() (number uint32, abi int)
	open(*file) driver
	// limits are what the device has by default, and the most that there can be.
	limits() Limits
	// attr changes what the kernel tells of the device.
	attr(*abi.ExQueryDeviceResp)
	// adapter adds the files of the adapter that the device is on, as Sysfs takes them, and
	// returns its folder in sysfs; "" if it is on none.
	adapter(k *Kernel, add func(line string)) string
	// identity lists the files of the device that say what it is.
	identity(file func(path, format string, args ...any))
	// cqFlags are those that a completion queue may be made with.
	cqFlags() uint32
	// packetKind is what completions of datagrams have in place of the service level, where
	// the link is Ethernet.
	packetKind(p *packet) uint8
	// polls reports whether doorbells are found by looking for them only.
	polls() bool
	// failuresTold reports whether who asks for solicited completions is told of those
	// that have failed, too, as the manual has it.
	failuresTold() bool
}

// uhw is what the two halves of a driver say to each other with a call; nil where
// there is nothing.
type uhw struct{ in, out []byte }

// driver is the kernel's half of a driver for one open device. Lock held, as for
// everything that it makes.
type driver interface {
	// has reports whether the driver has a command of INVOKE_WRITE.
	has(command uint32) bool
	context(d uhw) syscall.Errno
	device(d uhw) // what is told of it
	newPD(d uhw)
	newAH(a *ah, d uhw) syscall.Errno
	newMW(typ uint8) syscall.Errno
	// newCQ makes the queue of c, for at least cqe completions, and sets its cqe.
	newCQ(c *cq, cqe uint32, d uhw) syscall.Errno
	resizeCQ(c *cq, cqe uint32, d uhw) syscall.Errno
	// newSRQ makes the queue of s, for at least wr receives of its maxSGE pieces, and
	// sets its maxWR.
	newSRQ(s *srq, wr uint32, d uhw) syscall.Errno
	resizeSRQ(s *srq, wr uint32, d uhw) syscall.Errno
	// newQP makes the queues of q and corrects its cap. The receive queue is nil if
	// receives are shared.
	newQP(q *qp, d uhw) syscall.Errno
	// caps are what QUERY_QP says of a queue pair.
	caps(q *qp) abi.QpCap
	// mmap maps what was named, and tells how much there is to be unmapped then.
	mmap(offset uint64, length int) ([]byte, syscall.Errno)
	// pages is a file to map instead, -1 for none.
	pages() int
	// look finds doorbells that have rung, and reports whether there were any.
	look() (any bool)
	// close gives back what is left, once all objects are gone.
	close()
}

// tag names a work request to its owner.
type tag struct {
	id    uint64 // as the request says
	place uint16 // or where it is
	op    uint8  // in the driver's numbers
}

// sendQueue is the sends of a queue pair, as the device sees them.
type sendQueue interface {
	// waiting reports whether there is a request that the device was told of.
	waiting() bool
	// read copies the first request.
	read(*request)
	// take gives the first request back.
	take() tag
	// reset forgets what is there, and begin is said when the queue is used again.
	reset()
	begin()
	// end frees the queue.
	end()
}

// recvQueue is receives, of a queue pair or shared.
type recvQueue interface {
	// waiting counts the receives that are posted.
	waiting() uint32
	// read copies the first receive and gives it back.
	read(*receive)
	// take gives the first receive back.
	take() tag
	reset()
	end()
}

// compQueue is a completion queue.
type compQueue interface {
	// full reports whether there is no room for a completion.
	full() bool
	put(completion)
	end()
}

// sge is a piece of memory as work requests name it, or of the data that they hold.
type sge struct {
	addr   uint64
	length uint32
	lkey   uint32
	held   bool // addr is an offset in request.data
}

// receive is what was posted for a message.
type receive struct {
	tag    tag
	broken bool // it makes no sense
	length uint64
	list   []sge // of sges
	sges   [maxPieces]sge
}

// completion is how a work request has ended.
type completion struct {
	wc   abi.Wc
	tag  tag
	q    *qp
	recv bool // it was a receive

	solicited bool
}
