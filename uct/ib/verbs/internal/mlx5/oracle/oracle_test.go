//go:build linux && (amd64 || arm64)

package oracle_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// mode is a kind of device, and how doorbells are rung.
type mode struct {
	name       string
	static     bool // doorbell pages come with the context
	version0   bool // version of completions
	infiniBand bool
	blue       bool // BlueFlame
}

func (m mode) config() verbstest.Config {
	c := verbstest.Config{MLX5: &verbstest.MLX5{StaticUARs: m.static, Version0: m.version0}}
	if m.infiniBand {
		c.Ports = []verbstest.Port{{InfiniBand: true, LMC: 2}}
		return c
	}
	gids := []verbstest.GID{verbstest.IP("fe80::200:ff:fe00:1"), verbstest.IP("10.9.0.1"), verbstest.IP("10.9.0.1")}
	gids[2].V1 = true
	c.Ports = []verbstest.Port{{GIDs: gids}}
	return c
}

// modes returns all modes. InfiniBand and BlueFlame are combined only with the options that matter
// for them.
func modes() (list []mode) {
	for i := range 10 {
		m := mode{"dynamic", i&1 != 0, i < 8 && i&2 != 0, i < 8 && i&4 != 0, i >= 8}
		if m.static {
			m.name = "static"
		}
		if m.version0 {
			m.name += ", version 0"
		}
		if m.infiniBand {
			m.name += ", InfiniBand"
		}
		if m.blue {
			m.name += ", BlueFlame"
		}
		list = append(list, m)
	}
	return list
}

// scripts are the sequences of calls that run in each mode.
var scripts = []struct {
	name       string
	run        func(*pair)
	link, blue bool // also in modes with this property
	clears     bool // closes queue pairs with unread completions: see queues in testdata/probe.c
}{
	{"sizes", (*pair).sizes, false, false, false},
	{"sends", (*pair).sends, false, true, false},
	{"inline", (*pair).inlines, false, true, false},
	{"batches", (*pair).batches, true, true, false},
	{"full", (*pair).full, false, false, false},
	{"unreliable", (*pair).unreliable, true, false, false},
	{"datagrams", (*pair).datagrams, true, true, false},
	{"shared", (*pair).shared, true, false, false},
	{"windows", (*pair).windows, false, false, false},
	{"completions", (*pair).completions, false, false, false},
	{"reset", (*pair).resets, false, true, true},
	{"failures", (*pair).failures, false, false, true},
}

// TestOracle runs the scripts with libmlx5 and with our provider, in each mode.
func TestOracle(t *testing.T) {
	needtest.Goroutines(t)
	program := build(t)
	found, missing := make(map[string]int), 0
	for _, m := range modes() {
		missing++
		t.Run(m.name, func(t *testing.T) {
			missing--
			for _, s := range scripts {
				if m.infiniBand && !s.link || m.blue && !s.blue {
					continue
				}
				missing++
				t.Run(s.name, func(t *testing.T) {
					ucttest.NoLeaks(t)
					p := newPair(t, program, m)
					s.run(p)
					for name, n := range p.found {
						found[name] += n
					}
					missing--
				})
			}
		})
	}
	if t.Failed() || missing > 0 { // skipped, or not selected
		return
	}
	for _, name := range slices.Sorted(maps.Keys(differences)) {
		t.Logf("%d times: %s: %s", found[name], name, differences[name])
		if found[name] == 0 {
			t.Errorf("a difference that there is not: %s", name)
		}
	}
}

// wr is a send request.
type wr struct {
	op     verbs.WROpcode
	flags  verbs.SendFlags
	imm    uint64
	remote uint64 // offset in the memory
	key    uint64
	first  uint64 // operands of atomics
	second uint64
	ah     uint64
	qpn    uint64
	mw     uint64
	at, n  uint64 // range of a bind
	access uint64
	list   [][2]uint64 // offsets and lengths
}

// wrongKey is the XOR difference from a valid key to a key that does not exist.
const wrongKey = 0x100000

// keys are the keys of the region that covers the whole memory.
type keys struct{ local, remote uint64 }

// begin creates completion queues and registers the memory.
func (p *pair) begin(cqs int) keys {
	p.t.Helper()
	k := p.do("mr", 0, memorySize, 31)
	for range cqs {
		p.do("cq", 256)
	}
	return keys{k[0], k[1]}
}

// qpCap is the capacity of a queue pair.
type qpCap struct{ sends, receives, pieces, recvPieces, inline uint64 }

// newQP creates a queue pair whose send and receive completions go to the queues cqs, or all to
// queue 0. It returns its number.
func (p *pair) newQP(typ verbs.QPType, shared uint64, signal uint64, c qpCap, cqs ...uint64) (number uint64) {
	p.t.Helper()
	var send, recv uint64
	if len(cqs) == 2 {
		send, recv = cqs[0], cqs[1]
	}
	a := p.do("qp", uint64(typ), send, recv, shared, signal, c.sends, c.receives, c.pieces, c.recvPieces, c.inline)
	if a == nil {
		return 0
	}
	q := p.order[len(p.order)-1]
	q.typ, q.send, q.recv, q.all = typ, send, recv, signal != 0
	return a[0]
}

// up connects a queue pair, by index, with another one, by number.
func (p *pair) up(index, number uint64) {
	p.t.Helper()
	q, peer := p.order[index], p.qps[uint32(number)]
	theirs := number
	if q.peer = peer; peer != nil {
		theirs = uint64(peer.theirs)
	}
	to := p.address()
	p.doBoth("up", append([]uint64{index, number}, to...), append([]uint64{index, theirs}, to...))
}

// address returns the path from the port to itself.
func (p *pair) address(change ...func(a []uint64)) []uint64 {
	//           global, gid, index, hops, class, flow, lid, sl, bits, rate
	a := []uint64{1, 0, 0, uint64(p.path.index), 64, 0, 0, uint64(p.path.lid), 0, 0, 0}
	if p.mode.infiniBand {
		a[0] = 0
	}
	a[1], a[2] = binary.BigEndian.Uint64(p.path.gid[:]), binary.BigEndian.Uint64(p.path.gid[8:])
	for _, f := range change {
		f(a)
	}
	return a
}

var id uint64

// nobody is a number that no queue pair has.
const nobody = 0xffffff

// send posts send requests.
func (p *pair) send(qp uint64, wrs ...wr) (posted uint64) {
	p.t.Helper()
	args := []uint64{qp, uint64(len(wrs))}
	theirs := slices.Clone(args)
	for _, w := range wrs {
		id++
		imm, qpn := w.imm, w.qpn
		if w.op == verbs.WRSendWithInv || w.op == verbs.WRLocalInv {
			imm = p.theirKey(imm)
		}
		if q := p.qps[uint32(qpn)]; q != nil {
			qpn = uint64(q.theirs)
		}
		add := func(to []uint64, imm, key, qpn uint64) []uint64 {
			to = append(to, id, uint64(w.op), uint64(w.flags), imm, p.base+w.remote, key, w.first, w.second, w.ah, qpn, 0x11111111,
				w.mw, 0, w.at, w.n, w.access, uint64(len(w.list)))
			for _, s := range w.list {
				to = append(to, 0, s[0], s[1])
			}
			return to
		}
		args, theirs = add(args, w.imm, w.key, w.qpn), add(theirs, imm, p.theirKey(w.key), qpn)
	}
	posted = p.doBoth("send", args, theirs)[0]
	for _, w := range wrs[:posted] {
		p.owe(p.order[qp], w)
	}
	return posted
}

// owe counts the expected completions of a successful request.
func (p *pair) owe(q *queuePair, w wr) {
	if w.flags&signaled != 0 || q.all {
		p.due[q.send]++
	}
	peer := q.peer
	if q.typ == verbs.UD {
		peer = p.qps[uint32(w.qpn)]
	}
	switch w.op {
	case verbs.WRSend, verbs.WRSendWithImm, verbs.WRSendWithInv, verbs.WRRDMAWriteWithImm:
		if peer != nil {
			p.due[peer.recv]++
		}
	}
}

// recv posts receives to a queue pair, or to a shared queue if name is share.
func (p *pair) recv(name string, queue uint64, lists ...[][2]uint64) (posted uint64) {
	p.t.Helper()
	args := []uint64{queue, uint64(len(lists))}
	for _, list := range lists {
		id++
		args = append(args, id, uint64(len(list)))
		for _, s := range list {
			args = append(args, 0, s[0], s[1])
		}
	}
	return p.do(name, args...)[0]
}

// poll takes all expected completions, which must be successful.
func (p *pair) poll(cqs ...uint64) (n uint64) {
	p.t.Helper()
	for _, q := range cqs {
		a := p.take(q)
		n += a[0]
		for a = a[1:]; len(a) > 0; {
			switch { // see poll_from in testdata/probe.c
			case a[1] != 0:
				p.errorf("status %d of request %d", a[1], a[0])
			case a[3] >= uint64(verbs.WCRecv):
				a = a[13:]
			case a[3] == uint64(verbs.WCRDMARead):
				a = a[5:]
			default:
				a = a[4:]
			}
		}
	}
	return n
}

// ends takes the given numbers of completions of queues 0 and 1, successful or not.
func (p *pair) ends(sends, receives uint64) {
	p.t.Helper()
	p.due[0], p.due[1] = sends, receives
	p.take(0)
	p.take(1)
}

// take takes the expected completions of a queue on both sides, and compares them.
func (p *pair) take(q uint64) []uint64 {
	p.t.Helper()
	n := p.due[q]
	p.begins("%d completions of queue %d", n, q)
	p.reset = false
	a := p.compare("poll", p.gather(p.ours, q, n), p.gather(p.theirs, q, n))
	if a[0] != n {
		p.errorf("there were %d: %d", a[0], a[1:])
	}
	p.due[q] = 0
	p.compared["completions"] += int(n)
	return a
}

// gather polls the queue of one side until it has n completions, and returns them as one answer. A
// device takes time, above all for retries.
func (p *pair) gather(s *side, q, n uint64) string {
	p.t.Helper()
	all, found := "", uint64(0)
	for end := time.Now().Add(eventTimeout); ; {
		s.progress()
		count, list, _ := strings.Cut(p.told(s, "poll", q, 64), " ")
		more, err := strconv.ParseUint(count, 10, 64)
		if err != nil {
			p.errorf("an answer %q", count)
		}
		if found += more; more > 0 {
			all += " " + list
		}
		if found >= n || time.Now().After(end) {
			return fmt.Sprint(found, all)
		}
	}
}

// eventTimeout bounds the wait for an event that should happen.
const eventTimeout = 30 * time.Second

// connected creates two queue pairs connected to each other. Their sends complete in queue 0, their
// receives in queue 1.
func (p *pair) connected(typ verbs.QPType, c qpCap) keys {
	p.t.Helper()
	k := p.begin(2)
	a, b := p.newQP(typ, 0, 0, c, 0, 1), p.newQP(typ, 0, 0, c, 0, 1)
	p.up(0, b)
	p.up(1, a)
	return k
}

var usual = qpCap{sends: 16, receives: 16, pieces: 4, recvPieces: 4, inline: 100}

// lists are scatter/gather lists of all kinds.
var lists = [][][2]uint64{
	nil, {{100, 1}}, {{0, 4000}}, {{0, 0}}, {{8, 8}, {100, 200}}, {{8, 8}, {0, 0}, {100, 200}}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, {{0, 0}, {50, 7}, {0, 0}},
}

const signaled = verbs.SendSignaled

// sizes creates queues of many sizes; libmlx5 must report the same sizes, or fail as well.
func (p *pair) sizes() {
	p.begin(1)
	for _, cqe := range []uint64{1, 2, 3, 4, 5, 63, 64, 100, 1000} {
		p.do("cq", cqe)
	}
	for _, s := range [][2]uint64{{1, 1}, {2, 1}, {3, 2}, {4, 3}, {15, 4}, {16, 7}, {17, 8}, {100, 15}, {1, 31}, {1, 32}} {
		p.do("srq", s[0], s[1])
	}
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		for _, c := range []qpCap{
			{1, 1, 1, 1, 0}, {1, 0, 1, 0, 0}, {0, 1, 0, 1, 0}, {2, 3, 2, 3, 10}, {4, 5, 2, 5, 200}, {16, 16, 4, 4, 100}, {100, 100, 1, 1, 64},
			{3, 3, 30, 30, 0}, {1, 1, 20, 32, 800}, {7, 9, 3, 2, 1}, {5, 64, 5, 6, 400}, {128, 128, 3, 1, 28}, {33, 1, 10, 1, 0}, {10, 1, 51, 1, 0}, {1, 1, 1, 33, 0}, {1, 1, 1, 1, 812},
		} {
			p.newQP(typ, 0, 0, c)
		}
	}
}

// kinds returns requests of all kinds that use scatter/gather lists.
func kinds(k keys) []wr {
	return []wr{
		{op: verbs.WRSend}, {op: verbs.WRSendWithImm, imm: 0x01020304}, {op: verbs.WRRDMAWrite, remote: 0x20000, key: k.remote},
		{op: verbs.WRRDMAWriteWithImm, imm: 0xfedcba98, remote: 0x20008, key: k.remote}, {op: verbs.WRRDMARead, remote: 0x30001, key: k.remote},
	}
}

// flags are all valid combinations of flags.
var flags = []verbs.SendFlags{0, signaled, verbs.SendSolicited, verbs.SendFence, signaled | verbs.SendSolicited, signaled | verbs.SendFence | verbs.SendSolicited}

// sends posts requests of all kinds until the queue has wrapped.
func (p *pair) sends() {
	k := p.connected(verbs.RC, usual)
	p.do("fill", 0, memorySize, 3)
	for _, f := range flags {
		for _, w := range kinds(k) {
			for _, list := range lists {
				if w.op == verbs.WRRDMARead {
					list = shifted(list, 0x40000)
				}
				w.flags, w.list = f|signaled, list
				p.recv("recv", 1, [][2]uint64{{0x50000, 5000}})
				p.send(0, w)
				p.poll(0, 1)
			}
			w.flags, w.list = f, lists[1]
			p.recv("recv", 1, [][2]uint64{{0x50000, 5000}})
			p.send(0, w)
			p.poll(0, 1)
		}
		for _, w := range []wr{{op: verbs.WRAtomicCmpAndSwp, first: 0x0102030405060708, second: 0x1112131415161718}, {op: verbs.WRAtomicFetchAndAdd, first: 0x2122232425262728}} {
			w.remote, w.key, w.flags, w.list = 0x60000, k.remote, f|signaled, [][2]uint64{{0x61000, 8}}
			for range 5 {
				p.send(0, w)
				p.poll(0)
			}
		}
	}
	p.do("sum", 0, memorySize)
}

// shifted returns a list with all offsets moved.
func shifted(list [][2]uint64, by uint64) [][2]uint64 {
	list = slices.Clone(list)
	for i := range list {
		list[i][0] += by
	}
	return list
}

// inlines posts inline data of many lengths.
func (p *pair) inlines() {
	k := p.connected(verbs.RC, qpCap{sends: 8, receives: 8, pieces: 4, recvPieces: 1, inline: 300})
	p.do("fill", 0, memorySize, 7)
	for n := uint64(0); n <= 320; n += 1 + n/24 {
		for _, w := range kinds(k)[:4] {
			w.flags, w.list = signaled|verbs.SendInline, [][2]uint64{{n, n / 3}, {0, 0}, {5000, n - n/3}}
			p.recv("recv", 1, [][2]uint64{{0x50000, 5000}})
			p.send(0, w)
			p.poll(0, 1)
		}
	}
	p.do("sum", 0, memorySize)
}

// batches posts several requests at once.
func (p *pair) batches() {
	k := p.connected(verbs.RC, usual)
	for round := range uint64(12) {
		var wrs []wr
		for i := range 1 + round%8 {
			w := kinds(k)[(round+i)%5]
			w.list = shifted(lists[(round*3+i)%8], 0x40000)
			if i == round%8 {
				w.flags = signaled
			}
			if (w.op == verbs.WRSend || w.op == verbs.WRRDMAWrite) && (round+i)%2 == 0 {
				w.flags |= verbs.SendInline
				w.list = [][2]uint64{{100, 3 * round}, {200, i}}
			}
			wrs = append(wrs, w)
		}
		p.recv("recv", 1, slices.Repeat([][][2]uint64{{{0x50000, 3000}, {0x58000, 3000}}}, len(wrs))...)
		p.send(0, wrs...)
		p.poll(0, 1)
		for p.poll(1) > 0 {
		}
		// An invalid request after valid ones.
		p.send(0, wr{op: verbs.WRRDMAWrite, remote: 0, key: k.remote, flags: signaled}, wr{op: verbs.WRRDMAWrite, list: make([][2]uint64, 31)})
		p.poll(0)
	}
}

// full posts until the queues are full.
func (p *pair) full() {
	k := p.connected(verbs.RC, qpCap{sends: 5, receives: 5, pieces: 2, recvPieces: 3, inline: 0})
	for range 3 {
		for p.send(0, wr{op: verbs.WRRDMAWrite, remote: 0x1000, key: k.remote, flags: signaled, list: lists[1]}) > 0 {
		}
		p.poll(0)
		for p.recv("recv", 0, lists[4]) > 0 {
		}
		for range 4 {
			p.send(1, wr{op: verbs.WRSend, flags: signaled})
		}
		p.poll(0, 1)
	}
}

// unreliable uses unreliable connections.
func (p *pair) unreliable() {
	k := p.connected(verbs.UC, usual)
	for _, w := range kinds(k)[:4] {
		for _, list := range lists {
			w.flags, w.list = signaled, list
			p.recv("recv", 1, [][2]uint64{{0x50000, 5000}})
			p.send(0, w)
			p.poll(0, 1)
		}
	}
}

// datagrams sends to addresses of all kinds.
func (p *pair) datagrams() {
	p.begin(2)
	a, b := p.newQP(verbs.UD, 0, 0, usual, 0, 1), p.newQP(verbs.UD, 0, 1, usual, 0, 1)
	p.up(0, 0)
	p.up(1, 0)
	to := uint64(0)
	for _, c := range []struct {
		spread bool
		far    bool // on a card maybe no path to the port: datagrams get lost
		change func(a []uint64)
	}{
		{true, false, func([]uint64) {}},
		{false, false, func(a []uint64) { a[6] = 0x12345 }},
		{false, true, func(a []uint64) { a[6], a[5], a[4], a[8] = 0xfffff, 0xc4, 1, 5 }},
		{false, true, func(a []uint64) { a[6], a[8] = 1, 15 }},
		{false, true, func(a []uint64) { a[6], a[10] = 7, 3 }},
		{false, true, func(a []uint64) { a[6], a[10] = 7, 7 }},
		{false, true, func(a []uint64) { a[6], a[9], a[7] = 7, 1, a[7]+1 }},
		{false, true, func(a []uint64) { a[6], a[9] = 9, 3 }},
		{p.card, true, func(a []uint64) { // by another entry of the GID table, which a card may not have
			if !p.mode.infiniBand && !p.card {
				a[3] = 2
			}
		}},
		{false, true, func(a []uint64) { a[0], a[6] = 1, 0x54321 }},
	} {
		if p.do("ah", p.address(c.change)...) == nil {
			continue
		}
		for i := range uint64(2) {
			p.order[i].spread = c.spread && !p.mode.infiniBand
			other := []uint64{b, a}[i]
			if p.card && c.far {
				other = nobody
			}
			for _, list := range lists {
				if len(list) > 0 && list[0][1] > 1024 {
					list = [][2]uint64{{0, 1000}}
				}
				for _, f := range []verbs.SendFlags{signaled, signaled | verbs.SendSolicited, signaled | verbs.SendInline, 0} {
					if f&verbs.SendInline != 0 && len(list) > 0 && list[len(list)-1][1] > 90 {
						continue
					}
					p.recv("recv", 1-i, [][2]uint64{{0x50000, 40}, {0x60000, 2000}})
					p.send(i, wr{op: verbs.WRSendWithImm, imm: 0xabcdef, flags: f, ah: to, qpn: other, list: list})
					p.poll(0, 1)
				}
			}
			p.send(i, wr{op: verbs.WRSend, flags: signaled, ah: to, qpn: nobody, list: lists[1]})
			p.poll(0, 1)
		}
		to++
	}
}

// shared uses a receive queue shared by two queue pairs.
func (p *pair) shared() {
	k := p.begin(2)
	p.do("srq", 10, 3)
	var numbers []uint64
	for i := range uint64(4) {
		numbers = append(numbers, p.newQP(verbs.RC, i%2, 0, usual, 0, 1)) // 1 and 3 share the queue
	}
	for i := range uint64(4) {
		p.up(i, numbers[i^1])
	}
	for round := range uint64(12) {
		n := 1 + round%7
		var wrs [][][2]uint64
		for i := range n {
			list := shifted(lists[[]int{0, 1, 2, 4, 6}[(round+i)%5]], 0x50000) // libmlx5 writes length 0, which is 2 GiB
			wrs = append(wrs, append(list[:min(len(list), 2)], [2]uint64{0x70000, 5000}))
		}
		p.recv("share", 0, wrs...)
		for i := range n {
			w := kinds(k)[[]int{0, 1, 3}[(round+i)%3]]
			w.flags, w.list = signaled, lists[i]
			p.send(2*(i*round%2), w)
			p.poll(0)
		}
		p.poll(1)
	}
	for p.recv("share", 0, lists[1]) > 0 {
	}
}

// windows binds and invalidates memory windows; the next request has to wait for that.
func (p *pair) windows() {
	p.connected(verbs.RC, usual)
	if p.do("mw") == nil {
		p.t.Skip("the device has no windows")
	}
	p.do("mw")
	write := func() {
		p.send(0, wr{op: verbs.WRRDMAWrite, remote: 0x1000, key: p.do("rkey", 0)[0], flags: signaled, list: [][2]uint64{{0x9000, 8}}})
		p.poll(0)
	}
	for i, access := range []uint64{2, 4, 8, 14, 2 | 32, 14} {
		p.send(1, wr{op: verbs.WRBindMW, flags: signaled, mw: 0, at: 0x1000, n: 0x800 << i, access: access})
		p.poll(0)
		if access&32 == 0 && access&2 != 0 {
			write()
		}
		key := p.do("rkey", 0)[0]
		if i%2 == 0 {
			p.send(1, wr{op: verbs.WRLocalInv, imm: key, flags: signaled})
		} else {
			p.recv("recv", 1, lists[1])
			p.send(0, wr{op: verbs.WRSendWithInv, imm: key, flags: signaled, list: lists[1]})
		}
		p.poll(0, 1)
		p.recv("recv", 0, lists[1])
		p.send(1, wr{op: verbs.WRSend, flags: verbs.SendInline | verbs.SendFence, list: [][2]uint64{{0, 1}}})
		p.poll(0, 1)
	}
	p.recv("recv", 0, lists[1])
	p.send(1, wr{op: verbs.WRBindMW, mw: 1, at: 0x1000, n: 0x800, access: 2}, wr{op: verbs.WRSend, flags: signaled})
	p.poll(0, 1)
	p.send(1, wr{op: verbs.WRBindMW, mw: 1, flags: signaled}) // of length 0: closes the window
	p.poll(0)
}

// completions arms completion queues, waits for events and resizes.
func (p *pair) completions() {
	k := p.connected(verbs.RC, usual)
	for i := range uint64(10) {
		p.do("arm", 1, i%3/2)
		p.recv("recv", 1, lists[1])
		p.send(0, wr{op: verbs.WRSend, flags: verbs.SendSolicited | signaled, list: lists[1]})
		p.do("event", 1)
		if i%2 == 0 {
			p.poll(1)
		}
		p.poll(0)
	}
	p.poll(1)
	for _, cqe := range []uint64{400, 256, 30, 31, 600} {
		for range 3 {
			p.send(0, wr{op: verbs.WRRDMAWrite, remote: 0, key: k.remote, flags: signaled})
		}
		p.do("resize", 0, cqe)
		p.send(0, wr{op: verbs.WRRDMAWrite, remote: 0, key: k.remote, flags: signaled})
		p.do("arm", 0, 0)
		p.poll(0)
	}
	for range 1100 / 12 { // beyond the end of the queue
		var wrs []wr
		for range 12 {
			wrs = append(wrs, wr{op: verbs.WRRDMAWrite, key: k.remote, flags: signaled})
		}
		p.send(0, wrs...)
		p.poll(0)
	}
}

// resets sets queue pairs to RESET and uses them again.
func (p *pair) resets() {
	k := p.connected(verbs.RC, usual)
	for round := range uint64(4) {
		for range 3 + round {
			p.recv("recv", 1, lists[4])
			p.send(0, wr{op: verbs.WRSend, flags: signaled, list: lists[1]})
			p.send(0, wr{op: verbs.WRRDMARead, remote: 0, key: k.remote, list: lists[1]})
			p.send(0, wr{op: verbs.WRRDMAWrite, remote: 0, key: k.remote, flags: signaled, list: lists[6]})
			p.poll(0, 1)
		}
		p.recv("recv", 1, lists[4], lists[1])
		for i := range uint64(2) {
			if round%2 == 0 {
				p.do("state", i, uint64(verbs.QPErr))
				p.send(i, wr{op: verbs.WRSend, list: lists[1]})
				p.ends(1, 2*i)
			}
			p.do("state", i, uint64(verbs.QPReset))
		}
		p.up(0, uint64(p.order[1].number))
		p.up(1, uint64(p.order[0].number))
	}
	p.do("close", 0)
	p.do("close", 1)
}

// failures posts requests that fail.
func (p *pair) failures() {
	k := p.begin(2)
	for i := range uint64(6) {
		a, b := p.newQP(verbs.RC, 0, 0, usual, 0, 1), p.newQP(verbs.RC, 0, 0, usual, 0, 1)
		p.up(2*i, b)
		p.up(2*i+1, a)
		w := wr{op: verbs.WRRDMAWrite, remote: 0, key: k.remote, flags: signaled, list: lists[1]}
		switch i {
		case 0:
			w.key ^= wrongKey
		case 1:
			w.remote = memorySize
		case 2: // no receive is long enough
			p.recv("recv", 2*i+1, [][2]uint64{{0, 1}})
			w = wr{op: verbs.WRSend, flags: signaled, list: lists[2]}
		case 3:
			w = wr{op: verbs.WRAtomicFetchAndAdd, remote: 4, key: k.remote, flags: signaled, list: [][2]uint64{{0, 8}}}
			w.remote = memorySize - 4096
			w.key ^= wrongKey
		case 4:
			w = wr{op: verbs.WRRDMARead, remote: memorySize - 1, key: k.remote, list: lists[2]}
		case 5:
			p.do("state", 2*i+1, uint64(verbs.QPErr))
			w.op = verbs.WRSend
		}
		p.send(2*i, w, wr{op: verbs.WRRDMAWrite, remote: 0, key: k.remote}, wr{op: verbs.WRSend, flags: signaled, list: lists[1]})
		p.ends(3, i/2%2*(1-i%2)) // the receive that was too short
		p.recv("recv", 2*i, lists[1])
		p.send(2*i, wr{op: verbs.WRSend})
		p.ends(1, 1)
		p.do("close", 2*i)
		p.do("close", 2*i+1)
	}
}
