//go:build linux && (amd64 || arm64)

package oracle_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest/run"
)

// differences are the only differences allowed, with the reasons. Not compared are the bytes that
// BlueFlame writes after the first 8 of an entry, and the order of stores within a call, which is
// not visible from outside: TestTrace of the provider checks that.
var differences = map[string]string{
	"addend's second word": "the device does not look at the second word of a fetch-and-add: libmlx5 leaves what was there",
	"source port":          "of no flow label: libmlx5 has a random UDP port for each address, ours makes it from the queue pairs, so that packets of two stay in order",
	"shared memory":        "libmlx5 makes a shared receive queue twice as large, for receives that wait for memory to be paged in",
	"own number":           "the number by which completions name a queue pair: of those that came back libmlx5 takes the lowest, ours the last",
}

// differencesOnCard are the additional differences that must occur if both sides are programs on
// one card.
var differencesOnCard = map[string]string{
	"queue pair": "each side has queue pairs of its own: where ours names one, libmlx5 has to name the one that was made by the same call",
	"key":        "each side registers memory of its own, at the same address: the keys have to be of the same region or window",
	"padding":    "the device does not look at what is behind inline data, where both leave what was there: of earlier entries, with the above in it",
}

// side is one of the two sides: the process that makes calls, and what the device sees of it, or on
// a card its memory.
type side struct {
	prober
	net  *verbstest.Fabric // nil on a card
	dev  *verbstest.Kernel // nil on a card
	stop func() error

	pid   int                                        // on a card
	where func(completions bool) ([]location, error) // locations of the queues, on a card

	mu    sync.Mutex
	made  []string // under mu: since the last look
	bells []bell   // under mu: since the last look

	ends   map[string]uint32 // how far each queue was compared
	places map[string]uint32 // next entry of each shared queue
}

type bell struct {
	page, offset int
	value        uint64
}

// Rang implements verbstest.MLX5Watch.
func (s *side) Rang(page, offset int, value uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bells = append(s.bells, bell{page, offset, value})
}

// Made implements verbstest.MLX5Watch. Of addresses it records only whether they are 0.
func (s *side) Made(what string, in []byte) {
	var text string
	switch what {
	case "context":
		text = fields[abi.Mlx5AllocUcontextReqV2](in)
	case "completion queue":
		text = fields[abi.Mlx5CreateCq](in, "BufAddr", "DbAddr")
	case "resized completion queue":
		text = fields[abi.Mlx5ResizeCq](in, "BufAddr")
	case "shared receive queue":
		text = fields[abi.Mlx5CreateSrq](in, "BufAddr", "DbAddr")
	case "queue pair":
		text = fields[abi.Mlx5CreateQp](in, "BufAddr", "DbAddr")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = append(s.made, what+text)
}

// fields formats a struct; fields that are addresses become 0 or 1. Missing bytes are 0.
func fields[T any](in []byte, addresses ...string) string {
	var v T
	if binary.Size(v) > 0 {
		b := make([]byte, max(binary.Size(v), len(in)))
		copy(b, in)
		binary.Decode(b, binary.NativeEndian, &v)
	}
	for _, name := range addresses {
		f := reflect.ValueOf(&v).Elem().FieldByName(name)
		f.SetUint(min(f.Uint(), 1))
	}
	return fmt.Sprintf("%+v", v)
}

// look returns what has happened since the last look.
func (s *side) look() (made []string, bells []bell) {
	s.progress()
	s.mu.Lock()
	defer s.mu.Unlock()
	made, bells = s.made, s.bells
	s.made, s.bells = nil, nil
	return made, bells
}

// progress makes a simulated device do its pending work.
func (s *side) progress() {
	if s.net != nil {
		s.net.Progress()
	}
}

// queue is a queue in the memory of a program, as the device finds it; see verbstest.MLX5Queue.
type queue struct {
	Kind        string
	Number      uint32
	Record      []uint32
	Size, Entry int
	memory      func(n int) ([]byte, error)
}

// queues returns all queues, completion queues only if requested.
func (s *side) queues(completions bool) (list []queue, err error) {
	if s.dev == nil {
		places, err := s.where(completions)
		for _, p := range places {
			q, e := p.queue(s.pid)
			list, err = append(list, q), errors.Join(err, e)
		}
		return list, err
	}
	for _, q := range s.dev.MLX5Queues() {
		memory := func(n int) ([]byte, error) { return q.Memory()[:n], nil }
		list = append(list, queue{q.Kind, q.Number, q.Record, q.Size, q.Entry, memory})
	}
	return list, nil
}

// pair is both sides, which make the same calls.
type pair struct {
	t            *testing.T
	mode         mode
	card         bool // both are on one card, with their own queue pairs and keys
	ours, theirs *side
	base         uint64 // address of the memory
	path         path   // from the port to itself
	step         string
	reset        bool           // this step resets a queue pair
	closed       bool           // a queue pair was closed
	apart        bool           // do not look at completion queues: see queues in testdata/probe.c
	found        map[string]int // number of each difference
	compared     map[string]int // number of comparisons of each kind
	qps          map[uint32]*queuePair
	order        []*queuePair      // in the order of creation
	keys         [][2]uint32       // of the same objects: ours, that of libmlx5
	due          map[uint64]uint64 // expected completions by queue
}

// path has the addresses of a port.
type path struct {
	gid   verbs.GID
	index uint8
	lid   verbs.LID
}

// queuePair is the state of a queue pair.
type queuePair struct {
	number, theirs uint32
	typ            verbs.QPType
	send, recv     uint64 // completion queues
	all            bool   // each send is signaled
	peer           *queuePair
	spread         bool // the last address has no flow label
}

func emptyPair(t *testing.T, m mode) *pair {
	return &pair{t: t, mode: m, found: make(map[string]int), compared: make(map[string]int), qps: make(map[uint32]*queuePair), due: make(map[uint64]uint64)}
}

func newSide() *side {
	return &side{ends: make(map[string]uint32), places: make(map[string]uint32)}
}

// newPair starts both sides, each on its own device.
func newPair(t *testing.T, program string, m mode) *pair {
	t.Helper()
	p := emptyPair(t, m)
	for _, s := range []**side{&p.ours, &p.theirs} {
		x := newSide()
		x.net = verbstest.NewFabric()
		x.dev = x.net.Add(m.config())
		x.dev.WatchMLX5(x)
		*s = x
	}
	port := p.ours.dev.Config().Ports[0]
	if p.path = (path{port.GIDs[0].ID, 0, verbs.LID(port.LID)}); !port.InfiniBand {
		p.path = path{port.GIDs[1].ID, 1, 0}
	}
	if m.blue {
		t.Setenv("VERBS_BLUEFLAME", "1")
	}
	g, err := newGoProbe(p.ours.dev.Open(), p.ours.dev.ABI())
	if err != nil {
		t.Fatal(err)
	}
	p.ours.prober, p.base = g, g.base
	p.ours.stop = g.close
	c, err := run.New(p.theirs.net)
	if err == nil {
		err = p.theirs.start(c.Start, c.Close, exec.Command(program, fmt.Sprint(g.base)), m.blue)
	}
	if err != nil {
		g.close()
		if errors.Is(err, ucs.ErrUnsupported) {
			needtest.Tool(t, err.Error())
		}
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	p.compareMade()
	return p
}

// start starts the C program with one function; the other stops it.
func (s *side) start(start func(*exec.Cmd) error, stop func() error, cmd *exec.Cmd, blue bool) error {
	c := &cProbe{cmd: cmd}
	c.cmd.Env, c.cmd.Stderr = environment(blue), &c.err
	in, err1 := c.cmd.StdinPipe()
	out, err2 := c.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, start(c.cmd)); err != nil {
		return errors.Join(err, stop())
	}
	c.in, c.out = in, bufio.NewReader(out)
	s.prober, s.pid = c, c.cmd.Process.Pid
	s.stop = func() error { return errors.Join(c.close(), stop()) }
	_, err := c.do("sum", 0, 0) // the program is ready
	if err != nil {
		return errors.Join(err, s.stop())
	}
	return nil
}

// end ends both sides, and checks that neither has broken a rule.
func (p *pair) end() {
	for _, s := range []*side{p.ours, p.theirs} {
		if err := s.stop(); err != nil {
			p.t.Error(err)
		}
		if s.dev == nil {
			continue
		}
		for _, rule := range s.dev.Broken() {
			p.t.Errorf("%s (ours: %v)", rule, s == p.ours)
		}
	}
}

func (p *pair) errorf(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf(p.step+": "+format, args...)
	if p.t.Failed() {
		p.t.FailNow() // later steps would be meaningless
	}
}

// differs records an allowed difference.
func (p *pair) differs(name string) {
	if differences[name] == "" && (!p.card || differencesOnCard[name] == "") {
		p.errorf("a difference without a reason: %s", name)
	}
	p.found[name]++
}

// do makes a call on both sides and compares everything visible. It returns the answer.
func (p *pair) do(name string, args ...uint64) []uint64 {
	p.t.Helper()
	return p.doBoth(name, args, args)
}

// doBoth is like do, with different arguments for the sides.
func (p *pair) doBoth(name string, args, theirs []uint64) []uint64 {
	p.t.Helper()
	p.begins("%s %d", name, args)
	p.reset = name == "state" && args[1] == 0
	p.closed = p.closed || name == "close"
	return p.compare(name, p.told(p.ours, name, args...), p.told(p.theirs, name, theirs...))
}

// begins records the current step, for errors.
func (p *pair) begins(format string, args ...any) {
	p.step = fmt.Sprintf(format, args...)
	if len(p.step) > 200 {
		p.step = p.step[:200] + "…"
	}
	p.compared["calls"]++
}

// told makes a call on one side.
func (p *pair) told(s *side, name string, args ...uint64) (answer string) {
	p.t.Helper()
	answer, err := s.do(name, args...)
	if err != nil {
		p.t.Fatalf("%s: %v", p.step, err)
	}
	return answer
}

// compare compares the answers to a call, and everything else that is visible. It returns our
// answer.
func (p *pair) compare(name, ours, theirs string) []uint64 {
	p.t.Helper()
	x, y := numbers(ours), numbers(theirs)
	p.meet(name, x, y)
	same := len(x) == len(y)
	for i := 0; same && i < len(x); i++ {
		same = x[i] == y[i] || p.twin(x[i], y[i])
	}
	if !same {
		p.errorf("the answers are\n%s\n%s with libmlx5", ours, theirs)
	}
	p.compareMade()
	p.compareQueues()
	return x
}

// numbers returns the numbers in an answer, nil if it is an error.
func numbers(answer string) (list []uint64) {
	for _, f := range strings.Fields(answer) {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return nil
		}
		list = append(list, v)
	}
	return list
}

// compareMade compares the calls to the kernel, and the doorbells.
func (p *pair) compareMade() {
	p.t.Helper()
	made1, bells1 := p.ours.look()
	made2, bells2 := p.theirs.look()
	if !reflect.DeepEqual(made1, made2) {
		a, b := p.plain(made1), p.plain(made2)
		if !reflect.DeepEqual(a, b) {
			p.errorf("the kernel was told\n%s\n%s by libmlx5", a, b)
		}
	}
	if len(bells1) != len(bells2) {
		p.errorf("the doorbells are\n%x\n%x of libmlx5", bells1, bells2)
	}
	for i, b := range bells1 {
		o := bells2[i]
		if b != o {
			p.errorf("a doorbell in page %d at %#x of %016x, that of libmlx5 is in page %d at %#x of %016x", b.page, b.offset, b.value, o.page, o.offset, o.value)
		}
	}
}

var number = regexp.MustCompile(` Uidx:\d+`)

// plain removes the allowed differences from calls to the kernel.
func (p *pair) plain(made []string) []string {
	list := slices.Clone(made)
	for i := range list {
		if p.closed {
			p.differs("own number")
			list[i] = number.ReplaceAllString(list[i], "")
		}
	}
	return list
}

// compareQueues compares doorbell records, and the entries posted since the last look.
func (p *pair) compareQueues() {
	p.t.Helper()
	ours, err1 := p.ours.queues(!p.apart)
	theirs, err2 := p.theirs.queues(!p.apart)
	if err := errors.Join(err1, err2); errors.Is(err, syscall.EPERM) {
		needtest.Right(p.t, err.Error())
	} else if err != nil {
		p.t.Fatalf("%s: %v", p.step, err)
	}
	if len(ours) != len(theirs) {
		p.errorf("%d queues, %d of libmlx5", len(ours), len(theirs))
	}
	for i := range ours {
		a, b := &ours[i], &theirs[i]
		if a.Kind != b.Kind || a.Number != b.Number && !p.twin(uint64(a.Number), uint64(b.Number)) || a.Size > 0 && a.Entry != b.Entry {
			p.errorf("a queue of %s %#x with %d bytes for each, that of libmlx5 is of %s %#x with %d", a.Kind, a.Number, a.Entry, b.Kind, b.Number, b.Entry)
		}
		p.compared["records"]++
		if !reflect.DeepEqual(a.Record, b.Record) {
			p.errorf("the record of the %s of %#x is %#x, that of libmlx5 %#x", a.Kind, a.Number, a.Record, b.Record)
		}
		if a.Kind == "shared" && (2*a.Size == b.Size || b.Size == 0) { // on a card it is unknown
			p.differs("shared memory")
		} else if a.Size != b.Size {
			p.errorf("%d bytes of %s of %#x, those of libmlx5 %d", a.Size, a.Kind, a.Number, b.Size)
		}
		switch key := fmt.Sprint(a.Kind, a.Number); a.Kind {
		case "sends":
			p.compareSends(key, a, b)
		case "receives":
			p.compareReceives(key, a, b)
		case "shared":
			p.compareShared(key, a, b)
		}
	}
}

// memory returns the common part of the memory of two queues.
func (p *pair) memory(a, b *queue) (ours, theirs []byte) {
	p.t.Helper()
	ours, err1 := a.memory(a.Size)
	theirs, err2 := b.memory(a.Size) // the same size, or larger
	if err := errors.Join(err1, err2); err != nil {
		p.t.Fatalf("%s: %v", p.step, err)
	}
	return ours, theirs
}

// compareSends compares entries up to the index in the doorbell record.
func (p *pair) compareSends(key string, a, b *queue) {
	p.t.Helper()
	next, end := p.ours.ends[key], a.Record[1]&0xffff
	if end == 0 && next != 0 && p.reset {
		next = 0
	}
	p.ours.ends[key] = end
	if next == end {
		return
	}
	ours, theirs := p.memory(a, b)
	for next != end {
		x, y := entryAt(ours, next), entryAt(theirs, next)
		n := 16 * int(binary.BigEndian.Uint32(x[4:])&63)
		if n == 0 {
			p.errorf("an entry of no length")
		}
		x, y = x[:n], y[:n]
		p.level(x, y, p.qps[a.Number])
		p.compared["sends"]++
		if !bytes.Equal(x, y) {
			p.errorf("the entry of QP %#x at block %#x is\n%x\n%x of libmlx5", a.Number, next, chunks(x), chunks(y))
		}
		next = (next + uint32(n+63)/64) & 0xffff
	}
}

// entryAt returns the bytes of the longest possible entry at a block, which may wrap.
func entryAt(queue []byte, block uint32) []byte {
	const longest = 1024
	b := make([]byte, longest)
	for i := range b {
		b[i] = queue[(int(block)*64+i)%len(queue)]
	}
	return b
}

// chunks splits an entry into segments.
func chunks(b []byte) (list [][]byte) {
	for ; len(b) > 16; b = b[16:] {
		list = append(list, b[:16])
	}
	return append(list, b)
}

// level removes the allowed differences from two entries.
func (p *pair) level(x, y []byte, q *queuePair) {
	p.levelWords(x, y)
	p.levelPadding(x, y, q)
	if q.spread && !bytes.Equal(x[30:32], y[30:32]) {
		if x[30] < 0xc0 || y[30] < 0xc0 {
			p.errorf("source ports %x, %x", x[30:32], y[30:32])
		}
		p.differs("source port")
		copy(x[30:32], y[30:32])
	}
	if x[3] == abi.MLX5_OPCODE_ATOMIC_FA && !bytes.Equal(x[40:48], y[40:48]) {
		p.differs("addend's second word")
		copy(x[40:48], y[40:48])
	}
}

// compareReceives compares entries up to the index in the doorbell record.
func (p *pair) compareReceives(key string, a, b *queue) {
	p.t.Helper()
	next, end := p.ours.ends[key], a.Record[0]&0xffff
	if end == 0 && next != 0 && p.reset {
		next = 0
	}
	p.ours.ends[key] = end
	if next == end {
		return
	}
	ours, theirs := p.memory(a, b)
	for ; next != end; next = (next + 1) & 0xffff {
		at := int(next) % (a.Size / a.Entry) * a.Entry
		p.compareList(ours[at:at+a.Entry], theirs[at:at+b.Entry], "receive", next)
	}
}

// compareList compares scatter/gather lists, which end with a terminating element or with the
// entry.
func (p *pair) compareList(x, y []byte, what string, number uint32) {
	p.t.Helper()
	n := 0
	for n < len(x) {
		n += 16
		if binary.BigEndian.Uint32(x[n-12:]) == abi.MLX5_INVALID_LKEY {
			break
		}
	}
	y = y[:min(n, len(y))]
	p.levelWords(x[:n], y)
	p.compared[what+"s"]++
	if !bytes.Equal(x[:n], y) {
		p.errorf("%s %d is\n%x\n%x of libmlx5", what, number, chunks(x[:n]), chunks(y))
	}
}

// compareShared compares entries up to the index in the doorbell record, in the order in which the
// device finds them.
func (p *pair) compareShared(key string, a, b *queue) {
	p.t.Helper()
	next, end := p.ours.ends[key], a.Record[0]&0xffff
	p.ours.ends[key] = end
	if next == end {
		return
	}
	ours, theirs := p.memory(a, b)
	for ; next != end; next = (next + 1) & 0xffff {
		at := int(p.ours.places[key]) * a.Entry
		x, y := ours[at:at+a.Entry], theirs[at:at+b.Entry]
		if !bytes.Equal(x[:16], y[:16]) {
			p.errorf("a shared receive begins with\n%x\n%x of libmlx5", x[:16], y[:16])
		}
		p.compareList(x[16:], y[16:], "shared receive", next)
		p.ours.places[key] = uint32(binary.BigEndian.Uint16(x[2:]))
	}
}
