//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/internal/ticks"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Texts of the output, as in perftest_parameters.h.
const (
	line        = "---------------------------------------------------------------------------------------\n"
	waiting     = "\n************************************\n* Waiting for client to connect... *\n************************************\n"
	headerBW    = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
	headerLat   = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
	headerTimed = " #bytes        #iterations       t_avg[usec]    tps average\n"
	rowBW       = " %-7d    %-10d       %-7.2f            %-7.2f\t\t   %-7.6f\n"
	rowLat      = " %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f \t\t%-7.2f\n"
	rowTimed    = " %-7d       %d            %-7.2f        %-7.2f\n"
)

// mib is 1 MiB in bytes; the columns call it MB.
const mib = 1 << 20

// header prints the parameters of the test; ctx_print_test_info.
func (s *session) header(w io.Writer) {
	o := s.options
	title := []string{"Send", "RDMA_Write", "RDMA_Read", "Atomic"}[o.verb]
	if o.verb == verbAtomic {
		title += map[bool]string{false: " FETCH_AND_ADD", true: " CMP_AND_SWAP"}[o.swap]
	}
	switch {
	case !o.bw:
		title += " Latency"
	case o.both && o.postList > 1:
		title += " Bidirectional Post List BW"
	case o.both:
		title += " Bidirectional BW"
	case o.postList > 1:
		title += " Post List BW"
	default:
		title += " BW"
	}
	link := "Ethernet"
	if s.port.LinkLayer != verbs.LinkEthernet {
		link = "IB"
	}
	fmt.Fprintf(w, "%s                    %s Test\n", line, title)
	if o.events {
		fmt.Fprintf(w, " Test with events. Using %s_comp0\n", s.name)
	}
	fmt.Fprintf(w, " Dual-port       : OFF\t\tDevice         : %s\n", s.name)
	fmt.Fprintf(w, " Number of qps   : 1\t\tTransport type : IB\n")
	fmt.Fprintf(w, " Connection type : %v\t\tUsing SRQ      : OFF\n", o.conn)
	fmt.Fprintf(w, " PCIe relax order: %s\n ibv_wr* API     : OFF\n", map[bool]string{false: "OFF", true: "ON"}[s.relaxed()])
	if s.sends() {
		fmt.Fprintf(w, " TX depth        : %d\n", o.txDepth)
	}
	if o.postList > 1 {
		fmt.Fprintf(w, " Post List       : %d\n", o.postList)
	}
	if o.verb == verbSend && (!s.peer.client || o.both) {
		fmt.Fprintf(w, " RX depth        : %d\n", o.rxDepth)
	}
	if o.bw {
		fmt.Fprintf(w, " CQ Moderation   : %d\n", o.cqMod)
	}
	fmt.Fprintf(w, " Mtu             : %d[B]\n Link type       : %s\n", s.mtu.Bytes(), link)
	if s.peer.gid {
		fmt.Fprintf(w, " GID index       : %d\n", s.port.GID.Index)
	}
	if s.fetches() {
		fmt.Fprintf(w, " Outstand reads  : %d\n", s.local.outReads)
	} else {
		fmt.Fprintf(w, " Max inline data : %d[B]\n", s.inline)
	}
	fmt.Fprintf(w, " rdma_cm QPs\t : OFF\n Data ex. method : Ethernet\n%s", line)
}

// address prints the address of the queue pair of one side; ctx_print_pingpong_data.
func (s *session) address(w io.Writer, side string, k *keys) {
	fmt.Fprintf(w, " %s address: LID %s QPN %s PSN %s", side, alternate(uint64(k.lid), 4), alternate(uint64(k.qpn), 6), alternate(uint64(k.psn), 6))
	if s.verb == verbRead {
		fmt.Fprintf(w, " OUT %s", alternate(uint64(k.outReads), 4))
	}
	if s.verb == verbRead || s.verb == verbWrite {
		fmt.Fprintf(w, " RKey %s VAddr %s", alternate(uint64(k.rkey), 8), alternate(k.addr, 16))
	}
	fmt.Fprintln(w)
	if s.peer.gid {
		fmt.Fprintf(w, " GID: %02d%s\n", k.gid[0], strings.Join(decimals(k.gid[1:]), ""))
	}
}

// alternate formats like C's %#0*x, whose width includes the prefix; 0 has no prefix.
func alternate(v uint64, width int) string {
	if v == 0 {
		return strings.Repeat("0", width)
	}
	return fmt.Sprintf("0x%0*x", width-2, v)
}

func decimals(b []byte) []string {
	var list []string
	for _, v := range b {
		list = append(list, fmt.Sprintf(":%02d", v))
	}
	return list
}

// latencies is the result of a latency test, in microseconds.
type latencies struct {
	least, most, typical, average, deviation, p99, p999 float64
}

// latenciesOf computes the result from the times in ticks at which messages were sent; there must
// be at least minIters of them. The parameter factor is 2 if the time between two sends covers a
// message and its answer, else 1. As in C, the two longest times are left out of the averages. The
// deviation differs, because C rounds each square to microseconds.
func latenciesOf(posted []uint64, factor, perMicrosecond float64) latencies {
	deltas := make([]uint64, len(posted)-1)
	for i := range deltas {
		deltas[i] = posted[i+1] - posted[i]
	}
	slices.SortFunc(deltas, cmp.Compare)
	n := len(deltas) - 2
	unit := perMicrosecond * factor
	at := func(i int) float64 { return float64(deltas[i]) / unit }
	l := latencies{least: at(0), most: at(n), typical: at(n / 2)}
	if n%2 == 0 {
		l.typical = (at(n/2) + at(n/2-1)) / 2
	}
	for i := range n {
		l.average += at(i)
	}
	l.average /= float64(n)
	for i := range n {
		l.deviation += (at(i) - l.average) * (at(i) - l.average)
	}
	l.deviation = math.Sqrt(l.deviation / float64(n))
	l.p99, l.p999 = at(int(math.Ceil(float64(n)*0.99))), at(int(math.Ceil(float64(n)*0.999)))
	return l
}

// latency prints the row of a latency test; print_report_lat.
func (s *session) latency(w io.Writer, size int) {
	factor := 2.0
	if s.fetches() {
		factor = 1
	}
	if s.duration > 0 {
		seconds := ticks.Seconds(s.clock.measured())
		fmt.Fprintf(w, rowTimed, size, s.counted, seconds*1e6/factor/float64(s.counted), float64(s.counted)/seconds)
		return
	}
	l := latenciesOf(s.posted[:s.iters], factor, ticks.PerSecond()/1e6)
	fmt.Fprintf(w, rowLat, size, s.iters, l.least, l.most, l.typical, l.average, l.deviation, l.p99, l.p999)
}

// bandwidth returns the result of a bandwidth test; print_report_bw.
func (s *session) bandwidth(size int) report {
	n := s.iters
	first, last := s.posted[0], s.done[0]
	if s.duration > 0 {
		n, first, last = s.counted, s.clock.sample, s.clock.stop
	} else if !s.noPeak {
		last = s.done[n-1]
	}
	r := report{size: uint64(size), iters: uint64(n)}
	seconds := ticks.Seconds(last - first)
	if seconds <= 0 {
		return r
	}
	r.average = float64(size) * float64(n) / mib / seconds
	r.rate = float64(n) / 1e6 / seconds
	if !s.noPeak {
		r.peak = float64(size) / mib / ticks.Seconds(peak(s.posted[:n], s.done[:n], s.postList, s.cqMod))
	}
	return r
}

// peak returns the shortest time per message, in ticks, over all runs of consecutive messages. Only
// every cqMod-th message has a time of completion.
func peak(posted, done []uint64, list, cqMod int) uint64 {
	n := len(posted)
	best := done[n-1] - posted[0]
	try := func(i, j int) {
		best = min(best, (done[j]-posted[i])/uint64(j-i+1))
	}
	for i := 0; i < n; i += list {
		for j := (i/cqMod+1)*cqMod - 1; j < n; j += cqMod {
			try(i, j)
		}
		if n%cqMod != 0 {
			try(i, n-1)
		}
	}
	return max(best, 1)
}

// row prints the row of a bandwidth test. If back, the result of the other direction, is not nil,
// row prints the sum of both directions. print_full_bw_report.
func row(w io.Writer, r report, back *report) {
	if back != nil {
		r.peak += back.peak
		r.average += back.average
		r.rate += back.rate
	}
	fmt.Fprintf(w, rowBW, r.size, r.iters, r.peak, r.average, r.rate)
}
