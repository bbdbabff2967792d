package topo

import (
	"encoding/binary"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ucx-go/ucx/internal/sys"
)

// SystemID identifies the running machine: it is equal for all processes on it, in any container,
// and different after a reboot. It is the number that C UCX computes (ucs_get_system_id in
// src/ucs/sys/uid.c), with all 64 bits; device addresses use bit 63 for another purpose.
func SystemID() uint64 { return systemID() }

var systemID = sync.OnceValue(func() uint64 { return readSystemID("/") })

// readSystemID is SystemID for a file system at root.
func readSystemID(root string) uint64 {
	text, err := sys.ReadFile(filepath.Join(root, "proc/sys/kernel/random/boot_id"))
	if err == nil {
		if id, ok := foldBootID(string(text)); ok {
			return id
		}
	}
	host, _ := os.Hostname()
	return hashMachine(firstMAC(), host)
}

// foldBootID mixes the parts of a boot id "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
// into a number, as ucs_sys_get_boot_id in src/ucs/sys/sys.c and its caller do.
func foldBootID(text string) (id uint64, ok bool) {
	text = strings.TrimSpace(text)
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return 0, false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != 16 {
		return 0, false
	}
	// The groups are numbers, so they are read big-endian; the last one is six
	// bytes in text order.
	low := uint64(binary.BigEndian.Uint32(b)) |
		uint64(binary.BigEndian.Uint16(b[4:]))<<32 |
		uint64(binary.BigEndian.Uint16(b[6:]))<<48
	high := uint64(binary.BigEndian.Uint16(b[8:]))
	for i, c := range b[10:] {
		high |= uint64(c) << (16 + 8*i)
	}
	return low ^ high, true
}

// hashPrimes are the first of the numbers ucs_get_prime returns (src/ucs/sys/math.c).
// A host name has at most 64 bytes, so it uses eight after the first.
var hashPrimes = [...]uint64{
	14476643271716824181, 12086978239110065677, 15386586898367453843,
	17958312454893560653, 32416188191, 32416188793, 32416189381, 32416190071,
	9929050057,
}

// hashMachine is the fallback of C UCX for a hidden boot id (ucs_machine_guid in
// src/ucs/sys/sys.c).
func hashMachine(mac uint64, host string) uint64 {
	host, _, _ = strings.Cut(host, ".")
	sum := hashPrimes[0] * mac
	for i := 1; host != "" && i < len(hashPrimes); i++ {
		var word [8]byte
		n := copy(word[:], host)
		sum += hashPrimes[i] * binary.LittleEndian.Uint64(word[:])
		host = host[n:]
	}
	return sum
}

// firstMAC returns the hardware address of the first interface that has an IPv4 address and is not
// loopback, 0 if there is none.
func firstMAC() uint64 {
	ifs, _ := net.Interfaces()
	for _, ifc := range ifs {
		if ifc.Flags&net.FlagLoopback != 0 || len(ifc.HardwareAddr) < 6 {
			continue
		}
		addrs, _ := ifc.Addrs()
		for _, a := range addrs {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil {
				var b [8]byte
				copy(b[:6], ifc.HardwareAddr)
				return binary.LittleEndian.Uint64(b[:])
			}
		}
	}
	return 0
}
