//go:build simulate

package simnet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// AllKinds are the kinds of steps that Generate uses unless told otherwise.
var AllKinds = []string{"nop", "tag", "recv", "probe", "am", "next", "stream", "srecv", "put", "get", "flush", "wflush", "fence", "add", "fadd", "atomic", "connect", "close", "force", "quit", "reject", "shut"}

// maker makes a program.
type maker struct {
	*rand.Rand
	p       *Program
	kinds   []string
	nextID  int
	limit   int   // largest size
	outage  bool  // there are short outages
	lossy   bool  // there are faults that may lose something
	rings   bool  // with shared memory
	polls   bool  // copies, whose end only polling finds, at each step of the world
	eager   bool  // no message is sent by rendezvous
	listens bool  // there is a connection manager
	closes  bool  // there are steps that close endpoints
	forces  bool  // some of them by force
	burst   int   // largest number of operations of a step
	sizes   []int // thresholds
	owners  []int // worker of each list
}

// Generate makes the program of a seed, from some kinds of steps.
func Generate(seed uint64, kinds []string) *Program {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 0x10ad)), kinds: kinds, nextID: 1}
	m.p = &Program{Seed: seed, Hosts: 1 + m.IntN(3), PeerMode: m.IntN(2) == 0}
	m.limit = []int{300, 300, 9000, 9000, 70_000, 300_000}[m.IntN(6)]
	if m.chance(30) {
		m.limit = 1_500_000 // several pieces of a copy
	}
	if m.burst = 30; m.limit <= 9000 {
		m.burst = one(m.Rand, 2, 30, 400)
	}
	m.sizes = []int{0, 1, 7, 8, 9, 200, 232, 240, 248, 256, 1000, 8192 - 24, 8192 - 16, 8192 - 8, 8192, 16384, 65536, 131072, 262144}
	switch m.IntN(3) {
	case 0:
		m.outage = true
	case 1:
		m.lossy = m.p.PeerMode
	}
	m.processes()
	m.faults()
	m.p.Listen = m.listens && m.chance(4)
	if m.chance(4) && !m.polls {
		m.p.Slow = one(m.Rand, 2, 10, 50) // much happens between two packets of a message
	}
	m.exclude()
	m.steps()
	m.receives()
	return m.p
}

// one returns one of the values.
func one[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// chance is true in one of n cases.
func (m *maker) chance(n int) bool { return m.IntN(n) == 0 }

// exclude removes kinds that do not go together: of an endpoint that is closed or fails the unread bytes
// of its stream, and the replies that come later, are lost.
func (m *maker) exclude() {
	m.forces = slices.Contains(m.kinds, "force")
	if m.lossy || m.p.Listen { // of the two ends of a stream one would be that of an accepted endpoint
		m.kinds = slices.DeleteFunc(slices.Clone(m.kinds), func(k string) bool { return k == "stream" || k == "srecv" })
	}
	m.kinds = slices.DeleteFunc(slices.Clone(m.kinds), func(k string) bool { return k == "force" })
	if m.closes = m.chance(3) && slices.Contains(m.kinds, "close"); m.closes {
		m.kinds = slices.DeleteFunc(slices.Clone(m.kinds), func(k string) bool { return k == "stream" || k == "srecv" })
		for _, k := range []string{"tag", "am"} {
			if slices.Contains(m.kinds, k) {
				m.kinds = append(m.kinds, k)
			}
		}
	} else {
		m.kinds = slices.DeleteFunc(slices.Clone(m.kinds), func(k string) bool { return k == "close" })
	}
}

func (m *maker) processes() {
	tls := one(m.Rand, "nettcp", "netshm,nettcp", "netrc", "netrc,nettcp", "netrc,netshm,nettcp", "nettcp,netshm,netcma", "netud", "netud,netshm,netcma")
	if m.p.Hosts == 1 && m.chance(3) {
		tls = one(m.Rand, "netshm", "netshm,netcma")
	}
	if m.chance(2) {
		tls += ",self"
	}
	m.rings, m.polls = strings.Contains(tls, "netshm"), strings.Contains(tls, "netcma")
	settings := []string{"TLS=" + tls}
	switch {
	case strings.Contains(tls, "nettcp"):
		settings, m.listens = append(settings, "SOCKADDR_TLS_PRIORITY=nettcp"), true
	case strings.Contains(tls, "netrc"):
		settings, m.listens = append(settings, "SOCKADDR_TLS_PRIORITY=netrdmacm"), true
	}
	set := func(name string, values ...string) {
		if m.chance(3) {
			settings = append(settings, name+"="+one(m.Rand, values...))
		}
	}
	threshold := one(m.Rand, 300, 1000, 9000, 30_000)
	m.sizes = append(m.sizes, threshold)
	for _, segment := range []int{8192, 8256} { // ends of messages of several fragments
		k := 1 + m.IntN(4)
		m.sizes = append(m.sizes, 1<<20, segment*k, (segment-one(m.Rand, 8, 16, 24, 32))*k+one(m.Rand, 0, 8, 16))
	}
	set("RNDV_THRESH", fmt.Sprint(threshold), fmt.Sprint(threshold), "inf", "0", "auto")
	if m.eager = m.chance(6) || slices.Contains(settings, "RNDV_THRESH=inf"); m.eager {
		settings = append(settings, "RNDV_THRESH=inf")
	}
	set("RNDV_SCHEME", "get_zcopy", "put_zcopy", "am", "auto")
	set("ZCOPY_THRESH", fmt.Sprint(threshold), "0", "inf", "auto")
	set("BCOPY_THRESH", "0", "auto")
	keepalive := []string{"1s"}
	if !m.outage && !m.lossy { // at 10 ms an outage could be too long, and a timeout takes thousands of rounds
		keepalive = append(keepalive, "10ms")
	}
	if !m.p.PeerMode { // nobody would notice that the peer's endpoint was closed by force, or that its process is gone
		keepalive = append(keepalive, "inf")
	}
	set("KEEPALIVE_INTERVAL", keepalive...)
	if !slices.Contains(settings, "KEEPALIVE_INTERVAL=inf") && m.chance(6) {
		settings = append(settings, "KEEPALIVE_INTERVAL=1s", "KEEPALIVE_NUM_EPS=1") // at 20 s the last endpoint's turn would be late
	}
	set("PEER_RELEASE", "1.13", "1.22", "auto")
	set("MAX_RNDV_RAILS", "0", "1", "2", "3")
	set("MAX_RMA_RAILS", "0", "1", "2")
	if !m.rings || !m.lossy { // what a lost connection has carried of a message is not known if rings carry the rest
		set("MAX_EAGER_RAILS", "2", "3")
	}
	set("CM_USE_ALL_DEVICES", "n")
	set("STREAM_MAX_UNREAD", "64k")
	set("TOKEN", "y", "known", "n")
	if m.chance(2) {
		for _, s := range [][]string{
			{"ADDRESS_VERSION", "v2"}, {"SA_DATA_VERSION", "v1"}, {"FENCE_MODE", "strong"}, {"MIN_RMA_CHUNK_SIZE", "512"},
			{"MIN_RNDV_CHUNK_SIZE", "1k"}, {"MULTI_LANE_MAX_RATIO", "1", "100"}, {"RESOLVE_REMOTE_EP_ID", "on", "auto"},
			{"RKEY_PTR_SEG_SIZE", "4k"}, {"RMA_ZCOPY_MAX_SEG_SIZE", "1k", "5000"}, {"RNDV_PUT_FORCE_FLUSH", "y"},
			{"WIREUP_VIA_AM_LANE", "y"}, {"WAIT", "cpu"}, {"CLOSED", "y"}, {"RNDV_PERF_DIFF", "50"},
		} {
			set(s[0], s[1:]...)
		}
	}
	differ := m.chance(4)
	for range 2 + m.IntN(4) {
		pr := ProcessPlan{Host: m.IntN(m.p.Hosts), Settings: slices.Clone(settings), Multi: m.chance(2)}
		if differ {
			pr.Settings = slices.DeleteFunc(pr.Settings, func(s string) bool { return m.mayDiffer(s) && m.chance(2) })
		}
		switch m.IntN(6) {
		case 0:
			pr.Sleep = true
		case 1:
			pr.Arm = true
		}
		pr.NoLoop = m.chance(5) && !strings.Contains(tls, "self") // the real transport does not know simulated processes
		pr.Background = pr.Multi && m.chance(4)
		if m.lossy && m.chance(8) {
			pr.Settings = append(pr.Settings, one(m.Rand, "MAX_UNEXP_BYTES=64k", "MAX_UNEXP_BYTES=1m", "MAX_UNEXP_EPS=1", "MAX_UNEXP_EPS=3"))
		}
		for range 1 + m.IntN(2) {
			goroutines := 1
			if pr.Multi {
				goroutines += m.IntN(3)
			}
			pr.Workers = append(pr.Workers, WorkerPlan{Goroutines: make([][]Step, goroutines)})
		}
		m.p.Processes = append(m.p.Processes, pr)
	}
	worker := 0
	for _, pr := range m.p.Processes {
		for _, w := range pr.Workers {
			for range w.Goroutines {
				m.owners = append(m.owners, worker)
			}
			worker++
		}
	}
}

// mayDiffer reports whether a process may have the default of a setting that others have set.
func (m *maker) mayDiffer(setting string) bool {
	// Pairwise lanes must be as many on both sides (docs/settings.md).
	for _, name := range []string{"TLS=", "SOCKADDR_", "KEEPALIVE_", "TOKEN=", "CLOSED=", "MAX_RNDV_RAILS=", "MAX_RMA_RAILS=", "MAX_EAGER_RAILS=", "RNDV_SCHEME="} {
		if strings.HasPrefix(setting, name) {
			return false
		}
	}
	return setting != "RNDV_THRESH=inf" || !m.eager
}

// faultMix are the faults of programs in which something may be lost, by their share.
var faultMix = []string{"freeze", "cut", "partition", "vanish", "kill", "kill", "lie", "refuse", "refuse", "loss"}

// faults draws what goes wrong.
func (m *maker) faults() {
	if !m.outage && !m.lossy {
		return
	}
	span := one(m.Rand, time.Millisecond, 10*time.Millisecond, 100*time.Millisecond, time.Second)
	for range 1 + m.IntN(5) {
		f := Fault{Kind: one(m.Rand, "freeze", "cut", "partition", "vanish"), At: time.Duration(m.Int64N(int64(span)))}
		if m.lossy {
			f.Kind = one(m.Rand, faultMix...)
			if f.Kind == "refuse" && m.rings {
				f.Kind = "kill" // a worker that cannot map a peer's ring cannot tell the peer
			}
		}
		f.For = time.Duration(1 + m.Int64N(int64(brief)))
		if m.lossy && m.chance(2) {
			f.For = time.Duration(1 + m.Int64N(int64(one(m.Rand, 200*time.Millisecond, 3*time.Second, 40*time.Second))))
		}
		if faultKinds[f.Kind].hosts == 0 {
			f.A = m.IntN(len(m.p.Processes))
		} else {
			f.A, f.B = m.IntN(m.p.Hosts), m.IntN(m.p.Hosts)
		}
		switch f.Kind {
		case "kill":
			f.For = 0
		case "refuse":
			f.For = 0
			f.N = 1 + m.IntN(one(m.Rand, 3, 20))
		case "loss", "lie":
			f.N = 1 + m.IntN(40)
		case "vanish":
			f.B = 0
		}
		m.p.Faults = append(m.p.Faults, f)
	}
}

// size draws a size.
func (m *maker) size() int {
	n := 0
	switch m.IntN(4) {
	case 0:
		n = m.IntN(300)
	case 1:
		n = m.IntN(m.limit + 1)
	default:
		n = one(m.Rand, m.sizes...) + m.IntN(3) - 1
	}
	return min(max(n, 0), m.limit)
}

// wait draws the time that a goroutine waits.
func (m *maker) wait() time.Duration {
	switch m.IntN(3) {
	case 0:
		return 0
	case 1:
		return time.Duration(1+m.IntN(50)) * time.Microsecond
	}
	return time.Duration(1+m.IntN(20)) * time.Millisecond
}

// flags draws some of the flags.
func (m *maker) flags(all ...Flags) (f Flags) {
	if m.chance(3) {
		return 0
	}
	for _, o := range all {
		if m.chance(4) {
			f |= o
		}
	}
	if f&flagForce != 0 {
		f &^= flagNoImm
	}
	if f&flagFast != 0 {
		f &^= flagMulti
	}
	if f&flagIOV != 0 {
		f &^= flagGeneric
	}
	if f&flagOwn != 0 {
		f &^= flagFree
	}
	return f
}

// steps fills the lists with everything but tag receives.
func (m *maker) steps() {
	workers := m.p.workers()
	lists := m.p.lists()
	size := one(m.Rand, 5, 20, 60)
	first := make(map[int]bool) // lists that are the first of their worker
	seen := -1
	for k := range lists {
		if m.owners[k] != seen {
			first[k] = true
			seen = m.owners[k]
		}
	}
	for k, list := range lists {
		for range 1 + m.IntN(size) {
			s := Step{Kind: one(m.Rand, m.kinds...), N: 1, Peer: m.IntN(workers)}
			if m.chance(4) {
				s.N = 1 + m.IntN(30)
			}
			if s.Peer == m.owners[k] && !m.chance(8) {
				s.Peer = (s.Peer + 1) % workers
			}
			if !m.fill(&s, first[k]) || (s.Kind == "close" || s.Kind == "quit") && !m.alone(k) {
				continue
			}
			if m.chance(8) {
				s.Delay = m.wait()
			}
			m.add(list, s)
			if s.Kind == "quit" {
				break
			}
			if s.Kind == "put" && s.Size > 8000 && s.Flags&flagBlock == 0 && m.chance(3) {
				m.follow(list, s)
			}
		}
	}
}

// add adds a step to a list.
func (m *maker) add(list *[]Step, s Step) {
	s.ID = m.nextID
	m.nextID += s.N * s.messages()
	*list = append(*list, s)
}

// follow adds to a long put, which no longer waits, what must come after it: a flush, or a put behind a fence
// to where the last bytes of the put go.
func (m *maker) follow(list *[]Step, put Step) {
	(*list)[len(*list)-1].Wait = 0
	if m.chance(2) {
		m.add(list, Step{Kind: "flush", N: 1, Peer: put.Peer, Wait: m.wait()})
		return
	}
	m.add(list, Step{Kind: "fence"})
	n := one(m.Rand, 1, 8, 200, 5000)
	m.add(list, Step{Kind: "put", N: 1, Peer: put.Peer, Size: n, Off: put.Off + put.Size - n, Wait: m.wait()})
}

// alone reports whether a list is the only one of its worker.
func (m *maker) alone(list int) bool {
	n := 0
	for _, owner := range m.owners {
		if owner == m.owners[list] {
			n++
		}
	}
	return n == 1
}

// fill chooses the rest of a step. It returns false for a step that is not wanted.
func (m *maker) fill(s *Step, first bool) bool {
	s.Wait = m.wait()
	switch s.Kind {
	case "nop":
		if s.Wait == 0 {
			s.Delay = m.wait()
		}
		s.N = 0
		s.Peer = 0
	case "tag":
		s.Size, s.Class = m.size(), m.IntN(8)
		s.Flags = m.flags(flagSync, flagBlock, flagNoImm, flagForce, flagFast, flagMulti, flagCallback, flagIOV, flagGeneric, flagFree, flagOwn, flagMemory, flagCancel, flagChain)
		if s.Flags&flagSync != 0 {
			s.Flags &^= flagForce | flagFast
		}
		if s.Flags&flagCallback == 0 {
			s.Flags &^= flagChain
		}
	case "am":
		s.Size, s.Head, s.Class, s.How = m.size(), one(m.Rand, 0, 8, 9, 100, 200, 256), m.IntN(amReplies), m.IntN(hows)
		s.Flags = m.flags(flagBlock, flagNoImm, flagForce, flagFast, flagMulti, flagCallback, flagIOV, flagGeneric, flagFree, flagOwn, flagEager, flagRndv, flagReply, flagCopy, flagMemory, flagCancel, flagChain)
		if m.eager {
			s.Flags &^= flagRndv
		}
		if s.Flags&flagRndv != 0 {
			s.Flags &^= flagForce
		}
		if m.closes || m.lossy {
			s.Flags &^= flagReply
		}
	case "stream":
		if !first {
			return false
		}
		s.Size = m.size()
		s.Flags = m.flags(flagBlock, flagNoImm, flagForce, flagCallback, flagIOV, flagGeneric, flagFree, flagOwn)
	case "srecv":
		if !first {
			return false
		}
		s.Size = m.size()
		s.Flags = m.flags(flagBlock, flagNoImm, flagAll, flagIOV)
	case "put":
		s.Size, s.Off = m.size(), m.IntN(300)
		s.Flags = m.flags(flagBlock, flagNoImm, flagForce, flagCallback, flagFree, flagIOV, flagGeneric, flagOwn, flagMemory, flagCancel)
	case "get":
		s.Size, s.Off, s.How = m.size(), m.IntN(300), m.IntN(2)
		if s.How != 0 {
			s.N = 1
		}
		s.Flags = m.flags(flagBlock, flagNoImm, flagCallback, flagFree, flagIOV, flagOwn, flagMemory, flagCancel)
	case "flush":
		s.N = 1
		s.Flags = m.flags(flagBlock, flagNoImm, flagForce, flagCallback, flagFree, flagOwn)
	case "wflush":
		s.N, s.Peer = 1, 0
		s.Flags = m.flags(flagNoImm, flagCallback, flagFree, flagOwn)
	case "fence":
		s.N, s.Peer, s.Wait = 0, 0, 0
	case "add":
		s.Flags = m.flags(flagNoImm, flagForce, flagCallback, flagFree, flagWord32)
	case "fadd":
		s.Flags = m.flags(flagBlock, flagNoImm, flagCallback, flagFree, flagWord32, flagOwn)
	case "atomic":
		s.N = 1
		s.Class, s.How = m.IntN(6), m.IntN(3)
		s.Flags = m.flags(flagNoImm, flagCallback, flagFree, flagWord32)
	case "next":
		s.Class, s.Peer = m.IntN(2), 0
	case "connect":
		s.N = 1
	case "reject":
		s.Peer, s.Wait = 0, 0
		return m.lossy && m.p.Listen
	case "shut":
		s.Peer, s.How = 0, m.IntN(2)
		if s.Flags = m.flags(flagNoImm, flagCallback, flagFree, flagOwn); s.How != 0 {
			s.Flags &^= flagNoImm
		}
		return m.lossy && m.p.Listen
	case "quit":
		s.N, s.Peer, s.How = 1, 0, m.IntN(4)
		return m.lossy && m.chance(8)
	case "close":
		s.N = 1
		s.Flags = m.flags(flagNoImm, flagCallback, flagFree, flagOwn)
		if m.p.PeerMode && m.forces {
			if s.How = m.IntN(2); m.eager { // the receiver of an offer that was canceled waits for its endpoint's end
				s.How = m.IntN(3)
			}
			if s.How != howFlush {
				s.Flags = 0
			}
		}
	case "recv", "probe":
		return false // receives adds them
	}
	if s.Flags&flagBlock != 0 {
		s.Flags &^= flagNoImm | flagForce | flagFast | flagMulti | flagCallback | flagIOV | flagGeneric | flagFree | flagOwn | flagMemory | flagCancel
		if s.Wait == 0 {
			s.Wait = time.Duration(1+m.IntN(100)) * time.Microsecond
		}
	}
	return true
}

// receives adds tag receives for the messages that are sent.
func (m *maker) receives() {
	lists := m.p.lists()
	var sends []Step
	for _, list := range lists {
		for _, s := range *list {
			if s.Kind == "tag" {
				sends = append(sends, s)
			}
		}
	}
	var all []string
	for _, k := range m.kinds {
		if k == "recv" || k == "probe" {
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		return
	}
	share := m.IntN(100)
	for _, s := range sends {
		for k := range s.N {
			if m.IntN(100) >= share {
				continue
			}
			var at []int
			for i, owner := range m.owners {
				if owner == s.Peer {
					at = append(at, i)
				}
			}
			list := lists[one(m.Rand, at...)]
			r := Step{Kind: one(m.Rand, all...), N: 1, Class: s.Class, Mask: m.IntN(4), Wait: m.wait()}
			r.Size = m.limit
			if r.Mask == maskMessage {
				r.ID, r.Size = s.ID+k, s.Size+m.IntN(2)*m.IntN(100)
			}
			if m.chance(16) {
				r.Size = m.IntN(r.Size + 1)
			}
			if r.Kind == "recv" && r.Mask != maskMessage && m.chance(4) {
				r.N = 1 + m.IntN(8)
			}
			r.Flags = m.flags(flagBlock, flagNoImm, flagCallback, flagIOV, flagGeneric, flagCancel, flagFree, flagOwn)
			if r.Flags&flagBlock != 0 {
				r.Flags = flagBlock
				r.Wait = max(r.Wait, time.Microsecond)
			}
			if r.Flags&flagBlock == 0 && s.Size > 8000 && m.chance(4) { // between two fragments
				r.Flags |= flagCancel
				r.Wait = time.Duration(1+m.IntN(20*(1+m.p.Slow))) * time.Microsecond
			}
			if r.Flags&(flagGeneric|flagIOV) != 0 && r.Size < s.Size {
				r.Size = m.limit
			}
			if r.Kind == "probe" {
				r.Size = 0
			}
			*list = slices.Insert(*list, m.IntN(len(*list)+1), r)
		}
	}
}
