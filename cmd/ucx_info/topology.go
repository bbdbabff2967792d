package main

import (
	"fmt"
	"io"
)

// writeTopology prints the tables of -T as C's tool does where no device is known by its
// place in the machine, of which transports here tell nothing
// (src/tools/info/sys_info.c).
func writeTopology(w io.Writer) {
	fmt.Fprint(w, `#
# System topology
#
# +------+
# |      |
# | MB/s |
# |      |
# +------+
#
# NUMA memory latency
#
# +--------+
# |        |
# | device |
# |        |
# +--------+
# |        |
# |   nsec |
# |        |
# +--------+
# Memory latency is calculated according to the CPU affinity
`)
}
