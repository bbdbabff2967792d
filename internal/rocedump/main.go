//go:build linux

// Rocedump prints the RoCE v2 packets that cross a network device, one on a line: the InfiniBand
// headers, and the headers of UCX's rc_verbs and ud_verbs after them. It shows the traffic of two
// peers in the virtual machine, which has no tcpdump:
//
//	CGO_ENABLED=0 go build -o /tmp/rocedump ./internal/rocedump
//	scripts/vm exec -f /tmp/rocedump ... -- sh -c './rocedump veth0 & ...'
//
// It runs until it is killed. It needs root, or CAP_NET_RAW.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rocedump DEVICE")
		os.Exit(2)
	}
	if err := dump(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "rocedump:", err)
		os.Exit(1)
	}
}

// dump prints the packets that cross a device.
func dump(device string) error {
	number, err := os.ReadFile("/sys/class/net/" + device + "/ifindex")
	if err != nil {
		return err
	}
	index, err := strconv.Atoi(strings.TrimSpace(string(number)))
	if err != nil {
		return err
	}
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(all))
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMP, 1); err != nil { // the kernel takes the time
		return os.NewSyscallError("setsockopt", err)
	}
	var first float64
	stamp := make([]byte, unix.CmsgSpace(16))
	frame := make([]byte, 1<<16)
	for {
		n, control, _, _, err := unix.Recvmsg(fd, frame, stamp, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvmsg", err)
		}
		now := seconds(stamp[:control])
		if first == 0 {
			first = now
		}
		if line := decode(frame[:n]); line != "" {
			fmt.Fprintf(os.Stdout, "%9.6f %s\n", now-first, line)
		}
	}
}

// seconds reads the time of a packet, a struct timeval of a 64-bit system. It returns 0 on other
// systems.
func seconds(control []byte) float64 {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(list) == 0 || len(list[0].Data) < 16 {
		return 0
	}
	word := func(at int) float64 { return float64(binary.NativeEndian.Uint64(list[0].Data[at:])) }
	return word(0) + word(8)/1e6
}
