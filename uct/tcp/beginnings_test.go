//go:build linux

package tcp

import (
	"fmt"
	"strings"
	"testing"
)

// TestManyBeginnings: connections that stop within a frame take about as much memory as they have
// sent, not as the frame announces, however many they are. The frames are complete once the rest
// arrives.
func TestManyBeginnings(t *testing.T) {
	const n, length = 3 * largeBegun, 65536
	if !enoughFiles(2*n + 100) {
		t.Skip("too few descriptors")
	}
	h := newHost(t, "")
	data := make([]string, n)
	begun := make([]int, n)
	var peers []*rawPeer
	for i := range n {
		p := dial(t, h)
		p.send(flight(addr(fmt.Sprintf("127.0.0.1:%d", i+1)), 0))
		p.want(ack)
		data[i] = strings.Repeat(string(rune('a'+i%26)), length-i)
		begun[i] = []int{1, 100, 508, 512, 700, 3000, 40000, length - i}[i%8]
		p.send(am(1, data[i])[:begun[i]+hdrLen-1])
		peers = append(peers, p)
	}
	sent := func() (sum int) {
		for c := h.iface.conns; c != nil; c = c.next {
			if c.in != nil && len(c.in.data) != h.iface.rxPool.size {
				sum += c.in.w - c.in.r
			}
		}
		return sum
	}
	all := 0
	for i := range begun {
		all += begun[i] + hdrLen - 1
	}
	held := func() (sum int) {
		for _, p := range h.iface.svc.pieces {
			sum += p.used * p.size
		}
		return sum
	}
	until(t, "all that was sent", func() bool {
		sum := 0
		for c := h.iface.conns; c != nil; c = c.next {
			if c.in != nil {
				sum += c.in.w - c.in.r
			}
		}
		return sum == all
	}, h)
	if used := h.iface.rxPool.used; used > largeBegun {
		t.Errorf("%d connections keep large buffers, the limit is %d", used, largeBegun)
	}
	if held() > 2*sent()+n*smallPiece {
		t.Errorf("%d bytes are kept in buffers of %d", sent(), held())
	}
	for i, p := range peers {
		p.send([]byte(am(1, data[i])[begun[i]+hdrLen-1:]))
	}
	until(t, "all messages", func() bool { return len(h.got) == n }, h)
	whole := make(map[string]bool)
	for _, m := range h.got {
		whole[m.data] = true
	}
	for i := range data {
		if !whole[data[i]] {
			t.Errorf("message %d is not what was sent", i)
		}
	}
	if h.iface.rxPool.used != 0 || held() != 0 {
		t.Errorf("%d large buffers and %d bytes of pieces are kept for nothing", h.iface.rxPool.used, held())
	}
}
