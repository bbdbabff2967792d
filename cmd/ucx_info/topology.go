package main

import (
	"fmt"
	"io"
)

// writeTopology prints the tables of -T as C's tool does if no device has a known place in the
// machine's topology (src/tools/info/sys_info.c). The transports here report none.
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
