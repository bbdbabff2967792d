//go:build linux

package verbs

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// driverNames are the names of the kernel's drivers by their number; enum rdma_driver_id.
var driverNames = map[uint32]string{
	abi.RDMA_DRIVER_MLX5: "mlx5", abi.RDMA_DRIVER_MLX4: "mlx4", abi.RDMA_DRIVER_CXGB4: "cxgb4",
	abi.RDMA_DRIVER_BNXT_RE: "bnxt_re", abi.RDMA_DRIVER_IRDMA: "irdma", abi.RDMA_DRIVER_QEDR: "qedr",
	abi.RDMA_DRIVER_HNS: "hns", abi.RDMA_DRIVER_RXE: "rxe", abi.RDMA_DRIVER_HFI1: "hfi1", abi.RDMA_DRIVER_EFA: "efa",
	abi.RDMA_DRIVER_SIW: "siw", abi.RDMA_DRIVER_ERDMA: "erdma", abi.RDMA_DRIVER_MANA: "mana", abi.RDMA_DRIVER_IONIC: "ionic",
	abi.RDMA_DRIVER_OCRDMA: "ocrdma", abi.RDMA_DRIVER_VMW_PVRDMA: "vmw_pvrdma", abi.RDMA_DRIVER_USNIC: "usnic", abi.RDMA_DRIVER_QIB: "qib",
}

// maxDriverID is the limit of the driver numbers that identify tries.
const maxDriverID = 32

// identify returns the number of a device's kernel driver (enum rdma_driver_id), which it finds by
// trial. Every request contains a driver number, and the kernel refuses a wrong number with EINVAL.
// A request with the right number and without buffers passes that check and fails with ENOSPC.
func identify(f uverbs.File) (uint32, error) {
	var ids []uint32
	for _, p := range provider.All() {
		ids = append(ids, p.ID)
	}
	for id := range uint32(maxDriverID) {
		if provider.Find(id) == nil {
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
			err = fmt.Errorf("verbs: %s: the kernel accepted a probe without buffers, which its drivers refuse: %w", f.Name(), ucs.ErrUnsupported)
		}
		return 0, err
	}
	return 0, fmt.Errorf("verbs: %s: unknown driver: %w", f.Name(), last)
}

// providerOf returns the provider for a device. It fails if there is none for the device's driver,
// or if the provider does not support abiVersion; 0 means that the version is not known.
func providerOf(f uverbs.File, abiVersion int) (*provider.Provider, error) {
	id, err := identify(f)
	if err != nil {
		return nil, err
	}
	p := provider.Find(id)
	if p == nil {
		var have []string
		for _, p := range provider.All() {
			have = append(have, p.Name)
		}
		what, place := driverNames[id], "a package in uct/ib/verbs/internal"
		if what == "" {
			what = fmt.Sprintf("number %d", id)
		} else {
			place = "uct/ib/verbs/internal/" + what
		}
		return nil, fmt.Errorf("verbs: %s has the kernel driver %s, which is not supported, only %s (a provider would go to %s): %w",
			f.Name(), what, strings.Join(have, ", "), place, ucs.ErrUnsupported)
	}
	if abiVersion != 0 && (abiVersion < p.MinABI || abiVersion > p.MaxABI) {
		return nil, fmt.Errorf("verbs: %s: driver %s has version %d of its interface, not %d to %d: %w",
			f.Name(), p.Name, abiVersion, p.MinABI, p.MaxABI, ucs.ErrUnsupported)
	}
	return p, nil
}
