//go:build linux

package main

import (
	"fmt"
	"io"
)

const usageText = `Usage:
  ib_perftest <test> [flags]            start a server and wait for a connection
  ib_perftest <test> [flags] <host>     connect to the server at <host>

Tests: write_lat read_lat send_lat atomic_lat write_bw read_bw send_bw atomic_bw
The other side may be perftest's ib_<test>.

  -a, --all                  sizes from 2 to 2^23
  -A, --atomic_type=<type>   CMP_AND_SWAP or FETCH_AND_ADD (default)
  -b, --bidirectional        bandwidth in both directions
  -c, --connection=<type>    RC (default), UC, UD
  -d, --ib-dev=<dev>         device (default: the first)
  -D, --duration=<s>         seconds instead of iterations
  -e, --events               sleep until completions arrive
  -f, --margin=<s>           seconds at both ends of -D that are not measured (default: a quarter)
  -F, --CPU-freq             accepted
  -h, --help                 this text
  -i, --ib-port=<port>       port of the device (default 1)
  -I, --inline_size=<size>   largest message that is sent inline
  -l, --post_list=<n>        post lists of n requests
  -m, --mtu=<mtu>            256 to 4096 (default: that of the port)
  -n, --iters=<n>            exchanges (default 1000, write_bw 5000)
  -N, --no-peak              no peak bandwidth
  -o, --outs=<n>             reads and atomics in flight (default: the device's limit)
  -p, --port=<port>          TCP port (default 18515)
  -Q, --cq-mod=<n>           a completion for n requests (default 100; 1 above 8 KiB)
  -r, --rx-depth=<n>         receive queue (default 512)
  -s, --size=<n>             bytes, also 64K, 2M (default: latency 2, bandwidth 65536)
  -t, --tx-depth=<n>         send queue (default: latency 1, bandwidth 128)
  -u, --qp-timeout=<n>       time for an acknowledgment: 4 us * 2^n (default 14)
  -V, --version              protocol version
  -x, --gid-index=<n>        GID (default: the best)
`

func usage(w io.Writer) { fmt.Fprint(w, usageText) }
