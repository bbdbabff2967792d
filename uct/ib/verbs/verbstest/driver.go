//go:build linux

package verbstest

import (
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// The parts that differ between drivers: the driver's part of each call, and the layout of work
// requests and completions in queues.

// deviceKind is the part of the simulation that depends on the kind of device. It makes a driver
// each time that the device is opened.
type deviceKind interface {
	// driver returns the number of the kernel's driver and the version of its ABI.
	driver() (number uint32, abi int)
	open(*file) driver
	// limits returns the default limits, which are also the largest allowed.
	limits() Limits
	// attr changes the answer to QUERY_DEVICE.
	attr(*abi.ExQueryDeviceResp)
	// adapter adds the sysfs files of the PCI adapter that has the device, as lines that Sysfs
	// takes, and returns the folder of the adapter in sysfs; "" if there is none.
	adapter(k *Kernel, add func(line string)) string
	// identity calls file for each sysfs file that identifies the device, such as its firmware
	// version.
	identity(file func(path, format string, args ...any))
	// cqFlags returns the flags that a completion queue may be created with.
	cqFlags() uint32
	// packetKind returns what completions of datagrams on Ethernet links have in the field of the
	// service level.
	packetKind(p *packet) uint8
	// polls reports whether programs ring doorbells by a store to memory, which must be polled for.
	polls() bool
	// failuresWakeSolicited reports whether a failed completion raises the event of a queue that is
	// armed for solicited completions, as ibv_req_notify_cq(3) says.
	failuresWakeSolicited() bool
}

// uhw is the driver-specific data of a call: input from the user half of the driver, and the buffer
// for the answer of the kernel half. Either may be nil.
type uhw struct{ in, out []byte }

// driver is the kernel's half of a driver for one open device. Its methods, and those of the
// objects that it makes, are called with Fabric.mu held.
type driver interface {
	// has reports whether the driver supports a command of INVOKE_WRITE.
	has(command uint32) bool
	context(d uhw) syscall.Errno
	device(d uhw) // answers the driver's part of the extended QUERY_DEVICE
	newPD(d uhw)
	newAH(a *ah, d uhw) syscall.Errno
	newMW(typ uint8) syscall.Errno
	// newCQ makes the queue of c, for at least cqe completions, and sets c.cqe.
	newCQ(c *cq, cqe uint32, d uhw) syscall.Errno
	resizeCQ(c *cq, cqe uint32, d uhw) syscall.Errno
	// newSRQ makes the queue of s, for at least wr receives of s.maxSGE pieces, and sets s.maxWR.
	newSRQ(s *srq, wr uint32, d uhw) syscall.Errno
	resizeSRQ(s *srq, wr uint32, d uhw) syscall.Errno
	// newQP makes the queues of q and corrects q.cap. q.rq stays nil if q uses a shared receive
	// queue.
	newQP(q *qp, d uhw) syscall.Errno
	// caps returns the capabilities that QUERY_QP reports.
	caps(q *qp) abi.QpCap
	// mmap maps length bytes of the region that an earlier answer named by its offset.
	mmap(offset uint64, length int) ([]byte, syscall.Errno)
	// pages returns the descriptor of a file to map in place of the device, -1 if there is none.
	pages() int
	// look handles the doorbells in memory that have rung, and reports whether there were any.
	look() (any bool)
	// close frees what is left once all objects are gone.
	close()
}

// tag identifies a work request in its completion.
type tag struct {
	id    uint64 // ID of the request, for rdma_rxe
	index uint16 // index of its entry in the queue, for mlx5_ib
	op    uint8  // operation, in the driver's numbers
}

// sendQueue is the send queue of a queue pair, as the device sees it.
type sendQueue interface {
	// waiting reports whether the program has passed a request to the device that is not executed
	// yet.
	waiting() bool
	// read copies the first request and leaves it in the queue.
	read(*request)
	// take removes the first request.
	take() tag
	// reset discards the contents; begin is called when the queue pair leaves the reset state.
	reset()
	begin()
	// destination frees the queue.
	end()
}

// recvQueue is a receive queue, of a queue pair or shared.
type recvQueue interface {
	// waiting counts the posted receives.
	waiting() uint32
	// read copies the first receive and removes it.
	read(*receive)
	// take removes the first receive.
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

// sge is a scatter/gather element of a work request, or a part of its inline data.
type sge struct {
	addr   uint64
	length uint32
	lkey   uint32
	inline bool // inline: addr is an offset in request.data
}

// receive is a posted receive as copied from the queue.
type receive struct {
	tag    tag
	broken bool // the entry is invalid
	length uint64
	list   []sge // the used part of sges
	sges   [maxPieces]sge
}

// completion is the result of a work request.
type completion struct {
	wc   abi.Wc
	tag  tag
	q    *qp
	recv bool // it completes a receive

	solicited bool
}
