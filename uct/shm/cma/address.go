//go:build linux

package cma

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// An iface address is the process id (ucs_cma_iface_base_device_addr_t in
// src/uct/sm/scopy/cma/cma_iface.h). Outside the initial PID namespace bit 31 is set and the inode
// number of the namespace follows (ucs_cma_iface_ext_device_addr_t): in release 1.13 as 8 bytes
// after 4 bytes of padding, in release 1.22 as 4 bytes without padding. This library sends the
// number in both places, so that either release reads it.
const (
	shortAddrLen   = 4
	longAddrLen122 = 8
	longAddrLen    = 16

	otherNamespace = 1 << 31 // UCT_CMA_IFACE_ADDR_FLAG_PID_NS
)

// address is a parsed iface address.
type address struct {
	pid int
	ns  host.Namespace // PID namespace of pid
}

func localAddress() address {
	return address{pid: os.Getpid(), ns: host.OwnNamespace(topo.NamespacePID)}
}

// pack returns the wire form of the address, which both releases of C UCX read.
func (a address) pack() []byte {
	if !a.ns.Other {
		return binary.LittleEndian.AppendUint32(nil, uint32(a.pid))
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, longAddrLen), uint32(a.pid)|otherNamespace)
	b = binary.LittleEndian.AppendUint32(b, a.ns.Inode)
	return a.ns.Append(b)
}

// parseAddress parses a peer's address, all of b, in the form of any release.
func parseAddress(b []byte) (address, error) {
	var a address
	switch len(b) {
	case shortAddrLen, longAddrLen122, longAddrLen:
	default:
		return a, fmt.Errorf("cma: iface address of %d bytes: %w", len(b), ucs.ErrInvalidAddr)
	}
	word := binary.LittleEndian.Uint32(b)
	if long := word&otherNamespace != 0; long != (len(b) > shortAddrLen) {
		return a, fmt.Errorf("cma: iface address %x of %d bytes: %w", b, len(b), ucs.ErrInvalidAddr)
	}
	a.pid = int(word &^ otherNamespace)
	if a.pid < 1 || a.pid > host.MaxPID {
		return a, fmt.Errorf("cma: iface address with process id %d: %w", a.pid, ucs.ErrInvalidAddr)
	}
	if len(b) > shortAddrLen {
		ns := b[shortAddrLen:]
		if len(b) == longAddrLen {
			ns = b[longAddrLen122:]
		}
		var err error
		if a.ns, err = host.ParseNamespace(ns); err != nil {
			return a, err
		}
	}
	return a, nil
}

// peer returns the process that untrusted addresses name, after checking that this process may
// access it. Errors match ucs.ErrUnreachable and say what prevents the access.
func (i *iface) peer(dev, addr []byte) (host.Process, error) {
	if err := i.dev.ReachAddr(dev); err != nil {
		return host.Process{}, fmt.Errorf("cma: %w", err)
	}
	a, err := parseAddress(addr)
	if err != nil {
		return host.Process{}, fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
	}
	if err := i.own.ns.ReachPID(a.ns); err != nil {
		return host.Process{}, fmt.Errorf("cma: %w", err)
	}
	p, err := host.Find(a.pid)
	if err != nil {
		return p, fmt.Errorf("cma: %w", err)
	}
	if err := i.domain.users.CheckProcess(a.pid); err != nil {
		return p, fmt.Errorf("cma: %w", err)
	}
	if err := i.probe.tryPeer(a.pid); err != nil || i.opts.otherUsers {
		return p, err
	}
	return p, i.probe.sameUser(a.pid)
}
