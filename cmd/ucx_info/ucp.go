package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// placement is the location of the peer of the endpoint that -e shows.
type placement string

const (
	placeSelf  placement = "self"  // the same worker
	placeIntra placement = "intra" // another worker of the process
	placeInter placement = "inter" // another worker, over transports that reach other hosts
)

// endpointLimit bounds the wait for the endpoint's wireup.
const endpointLimit = time.Minute

// wantsUCP reports whether the requested output needs a UCP context.
func (o *options) wantsUCP() bool { return o.context || o.worker || o.endpoint || o.memory != "" }

// showUCP opens a context and the other requested objects and prints them, in the order of C's tool
// (src/tools/info/proto_info.c).
func showUCP(w io.Writer, o *options) (err error) {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		return err
	}
	if o.deviceType != "" {
		for kind, variable := range map[string]string{"self": "SELF_DEVICES", "shm": "SHM_DEVICES", "net": "NET_DEVICES"} {
			if kind == o.deviceType {
				continue
			}
			if err := cfg.Modify(variable, ""); err != nil {
				return err
			}
		}
	}
	if o.ipv6 { // a device is used with one address family, and the address belongs to a device
		if err := cfg.Modify("TCP_AF_PRIO", "inet6,inet"); err != nil {
			return err
		}
	}
	before := usageNow()
	ctx, err := ucp.NewContext(ucp.ContextParams{
		Features:           o.features,
		EstimatedEndpoints: o.numEPs,
		EstimatedPPN:       o.numPPN,
		Name:               "ucx_info",
	}, cfg)
	if err != nil {
		fmt.Fprintln(w, "<Failed to create UCP context>") // as C's tool prints it; the reason goes to stderr
		return err
	}
	defer func() { err = errors.Join(err, ctx.Close()) }()
	if o.memory != "" {
		if err := ctx.WriteMemInfo(w, o.memory); err != nil {
			return err
		}
	}
	if o.context {
		if err := ctx.WriteInfo(w); err != nil {
			return err
		}
		writeUsage(w, before)
	}
	if !o.worker && !o.endpoint {
		return nil
	}
	return showWorker(w, o, ctx)
}

func showWorker(w io.Writer, o *options, ctx *ucp.Context) (err error) {
	before := usageNow()
	worker, err := newWorker(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, worker.Close()) }()
	if o.worker {
		if err := worker.WriteInfo(w); err != nil {
			return err
		}
		writeUsage(w, before)
	}
	if !o.endpoint {
		return nil
	}
	peer := worker
	if o.place != placeSelf || o.address != "" { // a worker cannot be both client and server of a connection
		if peer, err = newWorker(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, peer.Close()) }()
	}
	return showEndpoint(w, o, worker, peer)
}

// newWorker creates a worker that is named by host and process, as in C.
func newWorker(ctx *ucp.Context) (*ucp.Worker, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return ctx.NewWorker(ucp.WorkerParams{Name: fmt.Sprintf("%s:%d", host, os.Getpid())})
}

// showEndpoint connects to a worker and prints the endpoint after its wireup.
func showEndpoint(w io.Writer, o *options, worker, peer *ucp.Worker) error {
	var p ucp.EndpointParams
	if o.address != "" {
		// The accepted endpoint is closed with its worker.
		l, err := peer.NewListener(ucp.ListenerParams{Addr: o.listenAt(), OnAccept: func(*ucp.Endpoint) {}})
		if err != nil {
			return err
		}
		defer l.Close()
		p.RemoteAddr = l.Addr()
	} else {
		var flags ucp.AddressFlags
		if o.place == placeInter {
			flags = ucp.AddressNetOnly
		}
		addr, err := peer.Address(flags)
		if err != nil {
			return err
		}
		p.Address = addr
	}
	if o.errorHandling {
		p.ErrMode = ucp.ErrModePeer
		p.OnError = func(*ucp.Endpoint, error, any) {} // the operations return the errors
	}
	ep, err := worker.NewEndpoint(p)
	if err != nil {
		return err
	}
	finish := func(r *ucp.Request, err error) error {
		for end := time.Now().Add(endpointLimit); err == nil && !r.Done(); {
			if worker.Progress()+peer.Progress() == 0 && time.Now().After(end) {
				return fmt.Errorf("connecting the endpoint to a peer on this machine takes longer than %v", endpointLimit)
			}
		}
		if err == nil && r != nil {
			err = r.Err()
			r.Free()
		}
		return err
	}
	if err := finish(ep.Flush(nil)); err != nil {
		return err
	}
	return errors.Join(ep.WriteInfo(w), finish(ep.CloseAsync(nil)))
}

// resources are the resources that the process uses.
type resources struct {
	when   time.Time
	memory int64 // peak memory, in bytes; -1 if unknown
	fds    int   // open descriptors; -1 if unknown
}

func usageNow() resources {
	u := resources{when: time.Now(), memory: peakMemory(), fds: -1}
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.fds = len(list)
	}
	return u
}

// writeUsage prints the resources used since before was measured.
func writeUsage(w io.Writer, before resources) {
	now := usageNow()
	if now.memory != -1 && before.memory != -1 && now.fds != -1 && before.fds != -1 {
		fmt.Fprintf(w, "# memory: %.2fMB, file descriptors: %d\n", float64(now.memory-before.memory)/mbyte, now.fds-before.fds)
	}
	fmt.Fprintf(w, "# create time: %.3f ms\n#\n", float64(now.when.Sub(before.when))/float64(time.Millisecond))
}
