package verbs

import (
	"fmt"
	"sort"
	"strings"
	"syscall"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/ucs"
)

// driver is the user's half of a kernel driver: it knows the queues of its
// devices. Drivers register themselves under the number of the kernel's.
type driver struct {
	name           string
	id             uint32
	minABI, maxABI int // of sysfs abi_version
	open           func(c *Context) driverContext
}

// driverContext makes objects for one open device.
//
// An object is made in steps: new, then the call to the kernel with what data
// returns, then attach, which maps or programs what the answer says. detach
// undoes attach and may be called without one.
type driverContext interface {
	// data is what goes with GET_CONTEXT, either way.
	data() (in, out []byte)
	newCQ(cqe int) driverCQ
	newQP(a *QPInitAttr) driverQP
	newSRQ(a *SRQInitAttr) driverSRQ
	newAH() driverAH
}

type driverObject interface {
	data() (in, out []byte)
	detach()
}

// driverCQ is the memory of a completion queue.
type driverCQ interface {
	driverObject
	attach(cq *CQ) error
	poll(wc []WC) int
	arm(solicited bool) error
	// resize is newCQ for a queue that takes the place of this one.
	resize(cqe int) driverCQ
}

// driverQP is the memory of a queue pair.
type driverQP interface {
	driverObject
	attach(qp *QP) error
	// postSend puts requests into the queue and tells the device once. It returns
	// how many are in the queue.
	postSend(wr []SendWR) (int, error)
	postRecv(wr []RecvWR) (int, error)
}

// driverSRQ is the memory of a shared receive queue.
type driverSRQ interface {
	driverObject
	attach(s *SRQ) error
	postRecv(wr []RecvWR) (int, error)
	// modifyData is what goes with MODIFY_SRQ of the limit.
	modifyData() []byte
	// resize is newSRQ for a queue that takes the place of this one; its data goes
	// with MODIFY_SRQ of the size.
	resize(s *SRQ, maxWR int) (driverSRQ, error)
}

// driverAH is what a device needs to know of an address.
type driverAH interface {
	driverObject
	attach(a *AH) error
}

var drivers = make(map[uint32]*driver)

func register(d *driver) {
	if drivers[d.id] != nil {
		panic("verbs: two drivers for " + d.name)
	}
	drivers[d.id] = d
}

// driverNames are those of the kernel's drivers; enum rdma_driver_id.
var driverNames = map[uint32]string{
	abi.RDMA_DRIVER_MLX5: "mlx5", abi.RDMA_DRIVER_MLX4: "mlx4", abi.RDMA_DRIVER_CXGB4: "cxgb4",
	abi.RDMA_DRIVER_BNXT_RE: "bnxt_re", abi.RDMA_DRIVER_IRDMA: "irdma", abi.RDMA_DRIVER_QEDR: "qedr",
	abi.RDMA_DRIVER_HNS: "hns", abi.RDMA_DRIVER_RXE: "rxe", abi.RDMA_DRIVER_HFI1: "hfi1", abi.RDMA_DRIVER_EFA: "efa",
	abi.RDMA_DRIVER_SIW: "siw", abi.RDMA_DRIVER_ERDMA: "erdma",
}

// maxDriverID bounds the search for the number of a device's driver.
const maxDriverID = 32

// identify asks the kernel which driver a device has. Every request names the
// driver and is refused with EINVAL if it is another's; the right one gets as far
// as the buffers that this request lacks.
func identify(f uverbs.File) (uint32, error) {
	var ids []uint32
	for id := range drivers {
		ids = append(ids, id)
	}
	for id := range uint32(maxDriverID) {
		if drivers[id] == nil {
			ids = append(ids, id)
		}
	}
	var last error
	for _, id := range ids {
		call := uverbs.NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE)
		err := call.Const(abi.UVERBS_ATTR_WRITE_CMD, abi.IB_USER_VERBS_CMD_ALLOC_PD).Do(f, id)
		switch uverbs.Errno(err) {
		case syscall.ENOSPC:
			return id, nil
		case syscall.EINVAL:
			last = err
			continue
		}
		if err == nil {
			err = fmt.Errorf("verbs: %s: a request without buffers was accepted: %w", f.Name(), ucs.ErrUnsupported)
		}
		return 0, err
	}
	return 0, fmt.Errorf("verbs: %s: no driver known here: %w", f.Name(), last)
}

// driverOf finds the driver for a device.
func driverOf(f uverbs.File, abiVersion int) (*driver, error) {
	id, err := identify(f)
	if err != nil {
		return nil, err
	}
	d := drivers[id]
	if d == nil {
		var have []string
		for _, d := range drivers {
			have = append(have, d.name)
		}
		sort.Strings(have)
		what := driverNames[id]
		if what == "" {
			what = fmt.Sprintf("number %d", id)
		}
		return nil, fmt.Errorf("verbs: %s has the kernel's driver %s, for whose queues there is no code here, only for %s: %w",
			f.Name(), what, strings.Join(have, ", "), ucs.ErrUnsupported)
	}
	if abiVersion != 0 && (abiVersion < d.minABI || abiVersion > d.maxABI) {
		return nil, fmt.Errorf("verbs: %s: driver %s has version %d of its interface, not %d to %d: %w",
			f.Name(), d.name, abiVersion, d.minABI, d.maxABI, ucs.ErrUnsupported)
	}
	return d, nil
}
