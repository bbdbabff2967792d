// Command ucx_info shows what this library finds on the machine: transports and their capabilities,
// RDMA devices, settings, versions. Options and output are those of C UCX's tool of the same name,
// release 1.22 (openucx/ucx src/tools/info), so that scripts that read the output keep working.
// RDMA devices, which C's tool does not list separately, follow the rest of -d. -y lists types of
// this library, and -T prints an empty topology, because no device is assigned a place in the
// topology of the machine.
//
// # JSON
//
// With -json the same facts are printed as one JSON object. -v, -b, -s, -d and
// -c select its members "version", "build", "system", "devices" and "config":
//
//   - version: strings "library", "path", "api", "revision", "configuration", "module".
//   - build: an object of strings, one for each build setting.
//   - system: numbers "timer_hz" and "timer_accuracy" (1 is exact), strings "cpu_vendor",
//     "cpu_model" and "product".
//   - devices: "memory_domains", an array, described below.
//   - config: an array of objects with the strings "name" (with UCX_), "value" and "origin";
//     origin is "default" or says where the value was set.
//
// Sizes are bytes, null if there is no limit; times are seconds, bandwidths bytes per second, a
// cost is {"fixed", "per_unit"}. A memory domain has
//
//   - "name", "component", and "error" if it could not be opened;
//   - "allocate" and "register", each an object with "max", absent if the domain does not support
//     the operation; register has "cost" per byte;
//   - "rkey_size", absent if no keys are needed; "rkey_ptr", "memh_needed", "invalidate":
//     booleans; "memory_types": an object from the type's name to an array of "access", "alloc",
//     "reg_nonblock", "reg", "cache";
//   - "transports": an array of interfaces, each with "transport", "device", "type",
//     "system_device" (null if unknown), "error" if it could not be opened, and otherwise
//     "bandwidth" {"dedicated", "shared"}, "latency" (a cost per endpoint), "overhead",
//     "operations", "atomics", "connection", "priority", "paths", "max_endpoints",
//     "device_address", "iface_address", "ep_address" (lengths), "error_handling";
//   - operations maps "am_short", "put_zcopy" and so on to {"min", "max", "max_iov", "align",
//     "mtu_align", "max_header"}, as far as they apply; atomics maps "add", "fadd" and so on to an
//     array of operand sizes in bits;
//   - "connection_manager", for the last domain of a component that has a connection manager:
//     {"max_conn_priv"}, or {"error"} if it could not be opened.
//
// Beside "memory_domains", devices has "rdma_devices" if there are any, and "rdma_error" if they
// could not be listed. Each RDMA device has
//
//   - "name", "node_type", "node_guid", "sys_image_guid"; "driver", "firmware", "hca_type",
//     "board_id" and "parent" (the underlying network interface) as far as they are known; "error"
//     says why it cannot be used;
//   - "pci", absent if it is not a PCI device: {"address", "vendor", "device"}; "numa_node", null
//     if there is none; "transports": an array of the names of the transports over it;
//   - "ports": an array, each with "port", "state", "physical_state", "link_layer", "bandwidth",
//     "speed" (4X EDR), "mtu" and "max_mtu" (null if the device cannot be opened), "lid", "sm_lid"
//     and "gids": an array of {"index", "gid", "type", "netdev"}.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/ucx-go/ucx/ucs/config"
)

// Exit codes. Those for a wrong command line are C's -1 and -2.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 255
	exitNothing = 254
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	o, code := parse(args, stdout, stderr)
	if o == nil {
		return code
	}
	out := bufio.NewWriter(stdout)
	err := o.show(out)
	if err == nil {
		err = out.Flush()
	} else {
		out.Flush() // the output that precedes the error
	}
	if err != nil {
		fmt.Fprintf(stderr, "ucx_info: %v\n", err)
		return exitFailure
	}
	return exitOK
}

// show prints the requested output, in the order of C's tool.
func (o *options) show(w io.Writer) error {
	cfg, err := config.Read("", "")
	if err != nil {
		return err
	}
	if o.json {
		return showJSON(w, o, cfg)
	}
	if o.version {
		writeVersion(w, version())
	}
	if o.build {
		writeBuild(w, buildSettings())
	}
	if o.types {
		writeTypes(w)
	}
	if o.devices {
		list := domains(cfg, o.transport)
		if o.transport != "" && !slices.ContainsFunc(list, func(d domain) bool { return len(d.ifaces) > 0 }) {
			return fmt.Errorf("no device has transport %s", o.transport)
		}
		writeDomains(w, list)
		if o.transport == "" {
			writeRDMA(w, thisMachine.find())
		}
	}
	if o.system {
		writeSystem(w, system("/"))
	}
	if o.topology {
		writeTopology(w)
	}
	if o.copies {
		if err := writeCopyBandwidth(w, 256<<20, copyTime); err != nil {
			return err
		}
	}
	if o.print&config.PrintConfig != 0 {
		if err := cfg.WriteMatching(w, o.print, o.filter); err != nil {
			return err
		}
	}
	if o.wantsUCP() {
		return showUCP(w, o)
	}
	return nil
}
