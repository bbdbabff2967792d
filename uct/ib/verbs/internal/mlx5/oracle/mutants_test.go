//go:build linux && (amd64 || arm64)

package oracle_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/race"
)

// mutant is a mistake in a file of the provider. Each of its edits is a text that occurs once in
// the file, and its replacement.
type mutant struct {
	what, file string
	edits      [][2]string
}

func change(what, file string, edits ...string) mutant {
	m := mutant{what: what, file: file}
	for i := 0; i+1 < len(edits); i += 2 {
		m.edits = append(m.edits, [2]string{edits[i], edits[i+1]})
	}
	return m
}

var mutants = []mutant{
	change("the owner bit of another round", "cq.go", "i>>c.round&1", "i>>(c.round+1)&1"),
	change("completions are not told to be taken", "poll.go", "\t\tc.next = i\n\t\tc.consumed()\n", "\t\tc.next = i\n"),
	change("an index of the consumer too low", "cq.go", "c.next&0xffffff) }", "(c.next-1)&0xffffff) }"),
	change("armed with a stale number of events", "cq.go", "c.taken.Load()&3<<28", "c.taken.Load()&0"),
	change("armed for the wrong completions", "cq.go", "if solicited {", "if !solicited {"),
	change("armed without a record", "cq.go", "setRecord(c.rec, abi.MLX5_CQ_ARM_DB, v)\n", ""),
	change("armed in the wrong half of the word", "cq.go", "uint64(v)<<32|uint64(c.answer.Cqn)", "uint64(c.answer.Cqn)<<32|uint64(v)"),
	change("events are not counted", "cq.go", "{ c.taken.Add(1) }", "{}"),
	change("room for one completion less", "size.go", "powerOf2(cqe + 1)", "powerOf2(cqe)"),
	change("memory for completions not marked", "cq.go", "abi.MLX5_CQE_INVALID << 4", "0"),

	change("the index of an entry cut off", "send.go", "uint64(post&0xffff)<<40", "uint64(post&0xff)<<40"),
	change("the index of an entry not masked", "send.go", "index := post & (q.size/blockSize - 1)", "index := post & (2*q.size/blockSize - 1)"),
	change("inline data without its header's length", "send.go", "n += (inlineHeader + wr.Length + unit - 1) / unit", "n += (wr.Length + unit - 1) / unit"),
	change("a segment too few, of what is added", "send.go", "q.setLen(q.len + 1)", "q.setLen(q.len)"),
	change("pieces of no length in sends", "send.go", "if list[i].Length != 0 {", "if list[i].Length != 1<<31 {"),
	change("length and key in the wrong order", "send.go", "uint64(p.Length)<<32|uint64(p.LKey)", "uint64(p.LKey)<<32|uint64(p.Length)"),
	change("a record behind the doorbell", "send.go",
		"\tsetRecord(q.rec, abi.MLX5_SND_DBR, q.post&0xffff)\n\tflushWrites()\n\tr := q.reg", "\tr := q.reg",
		"\t\tq.half ^= 1\n", "\t\tq.half ^= 1\n\t\tsetRecord(q.rec, abi.MLX5_SND_DBR, q.post&0xffff)\n"),
	change("the other word of the record", "send.go", "setRecord(q.rec, abi.MLX5_SND_DBR, q.post&0xffff)\n", "setRecord(q.rec, abi.MLX5_RCV_DBR, q.post&0xffff)\n"),
	change("a record of the last entry, not behind it", "send.go", "setRecord(q.rec, abi.MLX5_SND_DBR, q.post&0xffff)\n", "setRecord(q.rec, abi.MLX5_SND_DBR, (q.post-1)&0xffff)\n"),
	change("no barrier before the record", "send.go", "\ttoDevice()\n\tsetRecord(q.rec, abi.MLX5_SND_DBR", "\tsetRecord(q.rec, abi.MLX5_SND_DBR"),
	change("no barrier behind the record", "send.go", "q.post&0xffff)\n\tflushWrites()\n", "q.post&0xffff)\n"),
	change("no barrier behind the doorbell", "send.go", "*q.queue.word(q.off))\n\t\tflushWrites()\n\t\tq.half", "*q.queue.word(q.off))\n\t\tq.half"),
	change("a doorbell of the entry before", "send.go", "ring(r.bells[q.half&1], *q.queue.word(q.off))", "ring(r.bells[q.half&1], *q.queue.word(q.prev))"),
	change("one half of a register only", "send.go", "\t\tq.half ^= 1\n", ""),
	change("operands in the wrong order", "send.go", "first, second = wr.Swap, wr.CompareAdd", "first, second = wr.CompareAdd, wr.Swap"),
	change("the small fence in place of the fence", "send.go", "\t\tflags |= waits\n", "\t\tflags |= waitsSmall\n"),
	change("the wrong bit for solicited", "send.go", "uint64(wr.Flags&provider.SendSolicited)<<31", "uint64(wr.Flags&provider.SendSolicited)<<30"),
	change("queue pairs that signal all do not", "send.go", "flags := q.signal | ", "flags := "),
	change("a key to invalidate left out", "send.go", "{code: abi.MLX5_OPCODE_SEND_INVAL, len: 1, imm: ^uint32(0)}", "{code: abi.MLX5_OPCODE_SEND_INVAL, len: 1}"),
	change("room for one entry more", "send.go", "return q.head-q.seen < q.most", "return q.head-q.seen <= q.most"),
	change("unsignaled entries stay in the queue", "send.go", "word.StoreRelease32(&q.done, b.done)", "word.StoreRelease32(&q.done, q.done+1)"),

	change("pieces of no length in receives", "recv.go", "if list[i].Length != 0 {", "if list[i].Length != 1<<31 {"),
	change("no end of a list of pieces", "recv.go", "if n < most {", "if n > most {"),
	change("a record of receives too high", "recv.go", "q.head&0xffff)\n", "(q.head+1)&0xffff)\n"),
	change("places of shared receives are lost", "srq.go", "s.link(s.tail).Put(uint16(i))\n", ""),
	change("a record of the shared receives of one call", "srq.go", "s.posted += uint32(n)", "s.posted = uint32(n)"),
	change("a shared receive at the place of its link", "srq.go", "i<<s.shift+unit, wr.SGList", "i<<s.shift, wr.SGList"),

	change("no beginning again after RESET", "qp.go", "\tq.sendQueue.reset()\n", ""),
	change("records left after RESET", "qp.go", "\tsetRecord(q.rec, abi.MLX5_SND_DBR, 0)\n", ""),
	change("no number of the queue pair for completions", "qp.go", "\t\tq.request.Uidx = q.number\n", ""),
	change("the owner bits of entries that move", "drain.go", "e.OpOwn&^abi.MLX5_CQE_OWNER_MASK | owner", "e.OpOwn | owner&0"),
	change("completions of what is closed are forgotten", "drain.go", "\t\t\tc.rescued = append(c.rescued, wc)\n", ""),
	change("completions of what is closed stay, too", "drain.go", "\t\tc.next += gone\n", ""),
	change("a resized queue goes on an entry too early", "resize.go", "\t\t\tc.next++\n", ""),
	change("the owner bits of the old size", "resize.go", "uint8((i+1)/r.size&1)", "uint8((i+1)/c.size&1)"),

	change("a global route not marked", "ah.go", "\t\troute |= 1 << 30\n", ""),
	change("the service level in the wrong bits", "ah.go", "a.Sl&7<<1", "a.Sl&7"),
	change("another port of a flow", "ah.go", "flow>>14", "flow>>13"),
	change("an address not marked as a long one", "ah.go", "to | abi.MLX5_EXTENDED_UD_AV", "to"),
	change("the code of a rate", "ah.go", "7: 12, 8: 13", "7: 13, 8: 12"),
	change("no address of the next hop", "ah.go", "\ta.av.Rmac = a.answer.Dmac\n", ""),

	change("no fence behind a bind", "umr.go", "\tq.fence = waitsSmall\n", ""),
	change("a bind of fewer words", "umr.go", "u.KlmOctowords.Put(4)", "u.KlmOctowords.Put(3)"),
	change("a window for no queue pair", "umr.go", "k.QpnMkey.Put(q.qpn<<8 | ", "k.QpnMkey.Put(noQPN | "),
	change("a window that is taken away by nobody's leave", "umr.go", " | abi.MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN", ""),

	change("a syndrome of another status", "poll.go", "provider.WCRemAccessErr,", "provider.WCRemOpErr,"),
	change("no barrier behind the owner bit", "poll.go", "\t\tfromDevice()\n\t\tuverbs.RaceReceived()\n\t\tif c.take", "\t\tuverbs.RaceReceived()\n\t\tif c.take"),
	change("no length of what was read", "poll.go", "w.Opcode, w.ByteLen = provider.WCRDMARead, e.ByteCnt.Get()", "w.Opcode = provider.WCRDMARead"),
	change("the immediate data of another word", "poll.go", "from, imm := e.FlagsRqpn.Get(), e.ImmInvalPkey.Get()", "from, imm := e.FlagsRqpn.Get(), e.SrqnUidx.Get()"),
}

// onCard are mutants that a comparison on one card must detect too: it sees only memory, and how
// programs read completions.
var onCard = []string{
	"room for one completion less", "armed with a stale number of events", "a segment too few, of what is added", "the small fence in place of the fence",
	"no end of a list of pieces", "a record of the shared receives of one call", "another port of a flow", "a window for no queue pair",
	"the immediate data of another word", "a syndrome of another status",
}

// longRun makes each mutant run against all noticers, not only until one detects it.
var longRun = os.Getenv("MLX5_LONG") != ""

// programEnv names the variable with the path of the C program, which the mutants need.
const programEnv = "MLX5_PROBE"

// noticer is a set of tests of a package that may detect a mutant.
type noticer struct {
	name, folder, tags string
	args               []string
}

// noticers are all noticers, the fastest first.
var noticers = []noticer{
	{"order of stores", "..", "mlx5trace", []string{"-test.run=^TestTrace"}},
	// TestOrder would compile and run the noticer above.
	{"tests of the provider", "..", "", []string{"-test.run=^(Test|Fuzz)", "-test.skip=^TestOrder$"}},
	{"oracle", ".", "", []string{"-test.run=^TestOracle$/(dynamic|static,_version_0,_InfiniBand|dynamic,_BlueFlame)$"}},
	{"same card", ".", "", []string{"-test.run=^TestSameCard$/^Ethernet$"}},
}

// compile builds the test binary of a noticer, with all mutants in it.
func (n *noticer) compile(t *testing.T, overlay, program string) {
	t.Helper()
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-tags", n.tags, "-o", program, ".")
	cmd.Dir, cmd.Env = n.folder, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the %s, with all mutants: %v\n%s", n.name, err, out)
	}
}

// notices runs the binary with a mutant, or without one if number is 0. It returns the output.
func (n *noticer) notices(t *testing.T, program, ofC string, number int) (noticed bool, out []byte) {
	t.Helper()
	cmd := exec.Command(program, append(n.args, "-test.failfast", "-test.timeout=3m")...)
	cmd.Dir, cmd.Env = n.folder, append(os.Environ(), fmt.Sprint(chosenEnv, "=", number), programEnv+"="+ofC, deviceEnv+"=")
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return err != nil, out
}

// TestMutants checks that each mutant is detected, and that nothing is without a mutant.
func TestMutants(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("it compiles tests, and runs them many times")
	}
	ofC, list, dir := build(t), overlay(t), t.TempDir()
	programs := make([]string, len(noticers))
	for i, n := range noticers {
		if programs[i] = fmt.Sprintf("%s/%d", dir, i); i > 0 && n.folder == noticers[i-1].folder && n.tags == noticers[i-1].tags {
			programs[i] = programs[i-1]
		} else {
			n.compile(t, list, programs[i])
		}
		if noticed, out := n.notices(t, programs[i], ofC, 0); noticed {
			t.Fatalf("the %s, with nothing changed:\n%s", n.name, out)
		}
	}
	by := make(map[string]int)
	for number, m := range mutants {
		t.Run(m.what, func(t *testing.T) {
			anybody, last := false, len(noticers)-1
			for i, n := range noticers {
				if anybody && !longRun && (i != last || !slices.Contains(onCard, m.what)) {
					continue
				}
				start := time.Now()
				if noticed, out := n.notices(t, programs[i], ofC, number+1); noticed {
					anybody = true
					by[n.name]++
					t.Logf("noticed by the %s after %.1f s: %s", n.name, time.Since(start).Seconds(), complaint(out))
				} else if i == last && slices.Contains(onCard, m.what) {
					t.Errorf("not noticed by the %s", n.name)
				}
			}
			if !anybody {
				t.Error("not noticed")
			}
		})
	}
	t.Log(len(mutants), by)
}

// complaints matches lines of go test that report errors.
var complaints = regexp.MustCompile(`(?m)^\s*(\S+_test\.go:\d+: .*|panic: .*|fatal error: .*)$`)

// complaint returns the first of these lines that says more than that a program has ended.
func complaint(out []byte) string {
	for _, m := range complaints.FindAllSubmatch(out, -1) {
		if !bytes.Contains(m[1], []byte("exit status")) {
			return fmt.Sprintf("%.160s", m[1])
		}
	}
	return fmt.Sprintf("%.200s", out)
}

// TestMutantsFit checks that the texts which the mutants replace exist.
func TestMutantsFit(t *testing.T) {
	if len(mutants) < 25 {
		t.Errorf("%d mutants", len(mutants))
	}
	for _, what := range onCard {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.what == what }) {
			t.Errorf("no mutant is %s", what)
		}
	}
	overlay(t)
}
