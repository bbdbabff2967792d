//go:build linux

package ib

import "github.com/ucx-go/ucx/uct"

// Sizes in bytes of the headers and the trailer of a packet.
const (
	HeaderBTH  = 12
	HeaderRETH = 16
	HeaderDETH = 8

	headerGRH      = 40
	headerEthernet = 14
	headerLRH      = 8
	trailer        = 4 + 2 + 2 // ICRC, VCRC, delimiters
)

// speed is the performance of one lane of a link, at one of the link speeds.
type speed struct {
	latency  float64 // seconds
	rate     float64 // bits per second
	encoding float64 // fraction of these bits that carries data
}

// lane returns the speed of one lane of the port (uct_ib_iface_query).
func (p *Port) lane() speed {
	const eightTen, sixtyFour = 8.0 / 10.0, 64.0 / 66.0
	switch p.Attr.ActiveSpeed {
	case 2: // DDR
		return speed{2500e-9, 5.0e9, eightTen}
	case 4: // QDR
		if p.ethernet() {
			return speed{1300e-9, 10.3125e9, sixtyFour}
		}
		return speed{1300e-9, 10.0e9, eightTen}
	case 8: // FDR10
		return speed{700e-9, 10.3125e9, sixtyFour}
	case 16: // FDR
		return speed{700e-9, 14.0625e9, sixtyFour}
	case 32: // EDR
		return speed{600e-9, 25.78125e9, sixtyFour}
	case 64: // HDR
		return speed{600e-9, 25.78125e9 * 2, sixtyFour}
	case 128: // NDR
		return speed{600e-9, 100e9, sixtyFour}
	case 256: // XDR
		return speed{600e-9, 200e9, sixtyFour}
	}
	return speed{5000e-9, 2.5e9, eightTen} // SDR, or unknown
}

// lanes returns the number of lanes of the port, from the code of its width.
func (p *Port) lanes() float64 {
	switch p.Attr.ActiveWidth {
	case 2:
		return 4
	case 4:
		return 8
	case 8:
		return 12
	case 16:
		return 2
	}
	return 1
}

// Perf returns the performance model of a transport. segment is the largest segment in bytes,
// headers is the bytes of headers in a packet, and overhead is the CPU time for a message in
// seconds. UCP publishes the numbers of the model, and both sides choose lanes by these numbers,
// so they equal those of C UCX exactly (uct_ib_iface_query, uct_ib_iface_get_bandwidth). For a
// bond the numbers are those of C UCX 1.22.0; 1.13.1 treats a bond as one of its links.
func (i *Iface) Perf(segment, headers int, overhead float64) uct.Perf {
	p := i.Port
	l := p.lane()
	latency := l.latency
	headers += trailer
	if p.ethernet() {
		latency += 200e-9
		headers += headerGRH + headerEthernet
	} else {
		headers += headerLRH
	}
	wire := p.lanes() * l.rate * l.encoding * float64(i.links) / 8.0
	size := float64(min(segment, p.Attr.ActiveMTU.Bytes()))
	bandwidth := min(wire*size/(size+float64(headers)), p.Domain.link)
	return uct.Perf{
		Overhead:        overhead,
		SendOverhead:    overhead,
		RecvOverhead:    overhead,
		BandwidthShared: bandwidth,
		Latency:         uct.Linear{C: latency},
		Priority:        p.Domain.priority(),
	}
}
