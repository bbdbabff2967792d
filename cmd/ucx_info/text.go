package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// writeDomains prints domains in the layout of C's tool (src/tools/info/tl_info.c): scripts rely on
// the keys, the order and the blanks.
func writeDomains(w io.Writer, list []domain) {
	for i := range list {
		if list[i].name != "" {
			writeDomain(w, &list[i])
		}
		writeManager(w, list[i].component, list[i].manager)
	}
}

func writeManager(w io.Writer, component string, m *manager) {
	switch {
	case m == nil:
	case m.attr == nil:
		fmt.Fprintf(w, "# < failed to open connection manager %s: %v >\n", component, m.err)
	default:
		fmt.Fprintf(w, "#\n# Connection manager: %s\n#      max_conn_priv: %d bytes\n", m.attr.Component, m.attr.MaxPrivate)
	}
}

func writeDomain(w io.Writer, d *domain) {
	if d.attr == nil {
		fmt.Fprintf(w, "# < failed to open memory domain %s for component %s: %v >\n", d.name, d.component, d.err)
		return
	}
	a := d.attr
	fmt.Fprintf(w, "#\n# Memory domain: %s\n", d.name)
	fmt.Fprintf(w, "#     Component: %s\n", d.component)
	if a.Flags&uct.MDFlagAlloc != 0 {
		fmt.Fprintf(w, "#             allocate: %s\n", limit(0, a.MaxAlloc))
	}
	if a.Flags&uct.MDFlagRegister != 0 {
		fmt.Fprintf(w, "#             register: %s", limit(0, a.MaxReg))
		if a.Flags&uct.MDFlagRegDmabuf != 0 {
			fmt.Fprint(w, ", dmabuf")
		}
		fmt.Fprintf(w, ", cost: %s\n", nanoseconds(a.RegCost))
	}
	if a.Flags&uct.MDFlagNeedRkey != 0 {
		fmt.Fprintf(w, "#           remote key: %d bytes\n", a.RkeyPackedSize)
	}
	if a.Flags&uct.MDFlagNeedMemh != 0 {
		fmt.Fprint(w, "#           local memory handle is required for zcopy\n")
	}
	if d.componentFlags&uct.ComponentFlagRkeyPtr != 0 {
		fmt.Fprint(w, "#           rkey_ptr is supported\n")
	}
	if a.Flags&uct.MDFlagInvalidate != 0 {
		fmt.Fprint(w, "#           memory invalidation is supported\n")
	}
	fmt.Fprintf(w, "#         memory types: %s\n", memoryTypes(a))
	if d.err != nil {
		fmt.Fprintf(w, "#   < failed to query memory domain %s: %v >\n", d.name, d.err)
	}
	if len(d.ifaces) == 0 {
		fmt.Fprint(w, "#   < no supported devices found >\n")
	}
	for i := range d.ifaces {
		if i == 0 || d.ifaces[i].resource.Transport != d.ifaces[i-1].resource.Transport {
			fmt.Fprint(w, "#\n")
		}
		writeIface(w, &d.ifaces[i])
	}
}

// memoryTypes lists the types of memory that can be registered or allocated, with their uses.
func memoryTypes(a *uct.MDAttr) string {
	var list []string
	for _, t := range domainMemory(a) {
		list = append(list, fmt.Sprintf("%v (%s)", t.memory, strings.Join(t.uses, ",")))
	}
	return strings.Join(list, ", ")
}

func writeIface(w io.Writer, i *iface) {
	r := &i.resource
	fmt.Fprintf(w, "#      Transport: %s\n", r.Transport)
	fmt.Fprintf(w, "#         Device: %s\n", r.Device)
	fmt.Fprintf(w, "#           Type: %v\n", r.Type)
	if r.SysDevice < 0 {
		fmt.Fprint(w, "#  System device: <unknown>\n")
	} else {
		fmt.Fprintf(w, "#  System device: %s (%d)\n", r.Device, r.SysDevice)
	}
	if i.attr == nil {
		fmt.Fprintf(w, "#   < failed to open interface: %v >\n", i.err)
		return
	}
	fmt.Fprint(w, "#\n#      capabilities:\n")
	writeCapabilities(w, i.attr)
	if i.err != nil {
		fmt.Fprintf(w, "#   < failed to close interface: %v >\n", i.err)
	}
	fmt.Fprint(w, "#\n")
}

const mbyte = 1 << 20

func writeCapabilities(w io.Writer, a *uct.IfaceAttr) {
	fmt.Fprintf(w, "#            bandwidth: %.2f/ppn + %.2f MB/sec\n",
		a.Perf.BandwidthShared/mbyte, a.Perf.BandwidthDedicated/mbyte)
	fmt.Fprintf(w, "#              latency: %s\n", nanoseconds(a.Perf.Latency))
	fmt.Fprintf(w, "#             overhead: %.0f nsec\n", a.Perf.Overhead*1e9)
	for _, o := range operations(a) {
		writeOperation(w, &o)
	}
	writeAtomics(w, a)
	fmt.Fprintf(w, "#           connection:%s\n", joined("to ", connections(a)))
	fmt.Fprintf(w, "#      device priority: %d\n", a.Perf.Priority)
	fmt.Fprintf(w, "#     device num paths: %d\n", a.NumPaths)
	fmt.Fprintf(w, "#              max eps: %v\n", size(sizeT(a.MaxEndpoints)))
	fmt.Fprintf(w, "#       device address: %d bytes\n", a.DeviceAddrLen)
	if a.Flags.Has(uct.IfaceConnectToIface) {
		fmt.Fprintf(w, "#        iface address: %d bytes\n", a.IfaceAddrLen)
	}
	if a.Flags.Has(uct.IfaceConnectToEP) {
		fmt.Fprintf(w, "#           ep address: %d bytes\n", a.EpAddrLen)
	}
	fmt.Fprintf(w, "#       error handling:%s\n", joined("", errorHandling(a)))
}

func writeOperation(w io.Writer, o *operation) {
	value := limit(uint64(o.min), sizeT(o.max))
	if o.iov {
		value += fmt.Sprintf(", up to %d iov", uint64(o.maxIOV))
	}
	fmt.Fprintf(w, "#      %15s: %s\n", o.name, value)
	for _, d := range o.details {
		fmt.Fprintf(w, "#%21s: %s\n", d.label, limit(0, sizeT(d.value)))
	}
}

func writeAtomics(w io.Writer, a *uct.IfaceAttr) {
	list := atomics(a)
	if len(list) == 0 {
		return
	}
	if a.Flags.Has(uct.IfaceAtomicDevice) {
		fmt.Fprint(w, "#               domain: device\n")
	}
	if a.Flags.Has(uct.IfaceAtomicCPU) {
		fmt.Fprint(w, "#               domain: cpu\n")
	}
	for _, op := range list {
		bits := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(op.bits)), ", "), "[]")
		fmt.Fprintf(w, "#         %12s: %s bit\n", "atomic_"+op.name, bits)
	}
}

// joined returns the choices at the end of a line as C's tool prints them: each with a prefix, or
// "none".
func joined(prefix string, list []string) string {
	if len(list) == 0 {
		return " none"
	}
	return " " + prefix + strings.Join(list, ", "+prefix)
}

// nanoseconds prints a linear function of seconds.
func nanoseconds(l uct.Linear) string {
	s := fmt.Sprintf("%.0f", l.C*1e9)
	if l.M*1e9 > 1e-3 {
		s += fmt.Sprintf(" + %.3f * N", l.M*1e9)
	}
	return s + " nsec"
}

// limit prints a range of sizes (size_limit_to_str).
func limit(low, high uint64) string {
	switch {
	case low == 0 && unlimited(high):
		return "unlimited"
	case low == 0:
		return "<= " + size(high).String()
	}
	return size(low).String() + ".." + size(high).String()
}

// sizeT converts a limit to C's size_t: unlimited becomes the largest number. If a header has been
// subtracted from unlimited, it is subtracted from the largest number too.
func sizeT(n int) uint64 {
	const header = 1 << 10
	if n > uct.Unlimited-header {
		return math.MaxUint64 - uint64(uct.Unlimited-n)
	}
	return uint64(n)
}

// unlimited reports whether n means that there is no limit.
func unlimited(n uint64) bool { return n == math.MaxUint64 }

// size returns a number that prints with C's units: 8192 is 8K, unlimited is inf.
func size(n uint64) config.Bytes {
	if unlimited(n) {
		return config.BytesInf
	}
	return config.Bytes(n)
}
