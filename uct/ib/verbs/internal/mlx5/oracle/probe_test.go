//go:build linux && (amd64 || arm64)

package oracle_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Both sides execute commands: a name and numbers. testdata/probe.c documents them; our side
// executes them with package verbs.

// memorySize is the memory of each side, at the same address.
const memorySize = 1 << 20

// prober executes a call and returns the result.
type prober interface {
	do(name string, args ...uint64) (string, error)
	close() error
}

// cProbe is the C program.
type cProbe struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err strings.Builder
}

func (c *cProbe) do(name string, args ...uint64) (string, error) {
	var line strings.Builder
	line.WriteString(name)
	for _, v := range args {
		fmt.Fprintf(&line, " %d", v)
	}
	if _, err := fmt.Fprintln(c.in, line.String()); err != nil {
		return "", err
	}
	answer, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the program of C has ended: %w\n%s", err, &c.err)
	}
	return strings.TrimSuffix(answer, "\n"), nil
}

func (c *cProbe) close() error {
	c.in.Close()
	return c.cmd.Wait()
}

// goProbe executes the same calls with package verbs.
type goProbe struct {
	ctx      *verbs.Context
	pd       *verbs.PD
	channels []*verbs.CompChannel
	cqs      []*verbs.CQ
	srqs     []*verbs.SRQ
	qps      []*verbs.QP
	mrs      []*verbs.MR
	mws      []*verbs.MW
	ahs      []*verbs.AH
	memory   []byte
	base     uint64 // address of memory
	args     []uint64
	places   *locations // locations of the queues, nil if not needed
}

// newGoProbe uses an open device. It records the locations of queues if the file is a watched one.
func newGoProbe(file verbs.File, abi int) (g *goProbe, err error) {
	g = &goProbe{}
	if w, ok := file.(*watched); ok {
		g.places = &locations{told: w.take}
	}
	if g.memory, err = unix.Mmap(-1, 0, memorySize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return nil, err
	}
	if g.base, err = strconv.ParseUint(fmt.Sprintf("%p", g.memory), 0, 64); err != nil {
		return nil, err
	}
	if g.ctx, err = verbs.NewContext(file, abi); err != nil {
		unix.Munmap(g.memory)
		return nil, err
	}
	if g.pd, err = g.ctx.AllocPD(); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

func (g *goProbe) close() error {
	err := g.ctx.Close()
	return errors.Join(err, unix.Munmap(g.memory))
}

func (g *goProbe) do(name string, args ...uint64) (string, error) {
	f := calls[name]
	if f == nil {
		return "", fmt.Errorf("no call %s", name)
	}
	g.args = args
	answer, err := f(g)
	if err != nil {
		return "error", nil
	}
	return strings.Trim(fmt.Sprint(answer), "[]"), nil
}

func (g *goProbe) arg() uint64 {
	if len(g.args) == 0 {
		return 0
	}
	v := g.args[0]
	g.args = g.args[1:]
	return v
}

func (g *goProbe) int() int { return int(g.arg()) }

// pick returns the object with the next argument as its index, nil if there is none.
func pick[T any](g *goProbe, list []*T) *T {
	if i := g.arg(); i < uint64(len(list)) {
		return list[i]
	}
	return nil
}

// calls are the calls that a probe executes.
var calls = map[string]func(g *goProbe) (answer []uint64, err error){
	"mr": func(g *goProbe) ([]uint64, error) {
		at, n := g.arg(), g.arg()
		m, err := g.pd.RegMR(g.memory[at:at+n], verbs.Access(g.arg()))
		if err != nil {
			return nil, err
		}
		g.mrs = append(g.mrs, m)
		return []uint64{uint64(m.LKey()), uint64(m.RKey())}, nil
	},
	"mw": func(g *goProbe) ([]uint64, error) {
		m, err := g.pd.AllocMW()
		if err != nil {
			return nil, err
		}
		g.mws = append(g.mws, m)
		return []uint64{uint64(m.RKey())}, nil
	},
	"rkey": func(g *goProbe) ([]uint64, error) { return []uint64{uint64(pick(g, g.mws).RKey())}, nil },
	"cq": func(g *goProbe) ([]uint64, error) {
		ch, err := g.ctx.CreateCompChannel()
		if err != nil {
			return nil, err
		}
		q, err := g.ctx.CreateCQ(g.int(), ch, 0)
		if err != nil {
			return nil, errors.Join(err, ch.Close())
		}
		g.channels, g.cqs = append(g.channels, ch), append(g.cqs, q)
		g.places.cq(len(g.cqs)-1, q)
		return []uint64{uint64(q.CQE())}, nil
	},
	"resize": func(g *goProbe) ([]uint64, error) {
		q := pick(g, g.cqs)
		err := q.Resize(g.int())
		g.places.resized(slices.Index(g.cqs, q), q)
		return []uint64{uint64(q.CQE())}, err
	},
	"srq": func(g *goProbe) ([]uint64, error) {
		a := verbs.SRQInitAttr{MaxWR: g.int(), MaxSGE: g.int()}
		s, err := g.pd.CreateSRQ(&a)
		if err != nil {
			return nil, err
		}
		g.srqs = append(g.srqs, s)
		g.places.srq(len(g.srqs)-1, a)
		return []uint64{0}, nil
	},
	"qp": (*goProbe).makeQP,
	"ah": func(g *goProbe) ([]uint64, error) {
		a := g.address()
		h, err := g.pd.CreateAH(&a)
		if err != nil {
			return nil, err
		}
		g.ahs = append(g.ahs, h)
		return []uint64{0}, nil
	},
	"up": func(g *goProbe) ([]uint64, error) {
		q := pick(g, g.qps)
		a := verbs.QPAttr{Port: 1, QKey: 0x11111111, Access: 15, PathMTU: verbs.MTU1024, MaxDestRdAtomic: 4, MaxRdAtomic: 4,
			MinRNRTimer: 1, Timeout: 14, RetryCount: 6, RNRRetry: 6}
		a.DestQPN = verbs.QPN(g.arg())
		a.AH = g.address()
		return []uint64{0}, errors.Join(q.Init(&a), q.Connect(&a))
	},
	"state": func(g *goProbe) ([]uint64, error) {
		q := pick(g, g.qps)
		return []uint64{0}, q.Modify(&verbs.QPAttr{State: verbs.QPState(g.arg())}, verbs.QPAttrState)
	},
	"close": func(g *goProbe) ([]uint64, error) {
		q := pick(g, g.qps)
		g.places.closed(q)
		return []uint64{0}, q.Close()
	},
	"send": (*goProbe).send,
	"recv": func(g *goProbe) ([]uint64, error) {
		q := pick(g, g.qps)
		n, _ := q.PostRecv(g.receives())
		return []uint64{uint64(n)}, nil
	},
	"share": func(g *goProbe) ([]uint64, error) {
		s := pick(g, g.srqs)
		n, _ := s.PostRecv(g.receives())
		return []uint64{uint64(n)}, nil
	},
	"poll": (*goProbe).poll,
	"arm": func(g *goProbe) ([]uint64, error) {
		q := pick(g, g.cqs)
		return []uint64{0}, q.ReqNotify(g.arg() != 0)
	},
	"event": func(g *goProbe) ([]uint64, error) {
		ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
		defer cancel()
		_, err := pick(g, g.channels).GetEvent(ctx)
		return []uint64{0}, err
	},
	"fill": func(g *goProbe) ([]uint64, error) {
		at, n, seed := g.arg(), g.arg(), g.arg()
		for i := range n {
			g.memory[at+i] = byte(seed + i + i>>8)
		}
		return []uint64{0}, nil
	},
	"sum": func(g *goProbe) ([]uint64, error) {
		at, n, sum := g.arg(), g.arg(), uint32(0)
		for _, b := range g.memory[at : at+n] {
			sum = sum*31 + uint32(b)
		}
		return []uint64{uint64(sum)}, nil
	},
}

func (g *goProbe) makeQP() ([]uint64, error) {
	a := verbs.QPInitAttr{Type: verbs.QPType(g.arg()), SendCQ: pick(g, g.cqs), RecvCQ: pick(g, g.cqs)}
	if shared := g.int(); shared != 0 {
		a.SRQ = g.srqs[shared-1]
	}
	a.SigAll = g.arg() != 0
	c := &a.Cap
	c.MaxSendWR, c.MaxRecvWR, c.MaxSendSGE, c.MaxRecvSGE, c.MaxInline = g.int(), g.int(), g.int(), g.int(), g.int()
	q, err := g.pd.CreateQP(&a)
	if err != nil {
		return nil, err
	}
	g.qps = append(g.qps, q)
	g.places.qp(q, a.SRQ != nil)
	*c = q.Cap()
	return []uint64{uint64(q.QPN()), uint64(c.MaxSendWR), uint64(c.MaxRecvWR), uint64(c.MaxSendSGE), uint64(c.MaxRecvSGE), uint64(c.MaxInline)}, nil
}

func (g *goProbe) address() verbs.AHAttr {
	a := verbs.AHAttr{Port: 1, Global: g.arg() != 0}
	binary.BigEndian.PutUint64(a.DGID[:], g.arg())
	binary.BigEndian.PutUint64(a.DGID[8:], g.arg())
	a.SGIDIndex, a.HopLimit, a.TrafficClass, a.FlowLabel = uint8(g.arg()), uint8(g.arg()), uint8(g.arg()), uint32(g.arg())
	a.DLID, a.SL, a.SrcPathBits, a.StaticRate = verbs.LID(g.arg()), uint8(g.arg()), uint8(g.arg()), uint8(g.arg())
	return a
}

func (g *goProbe) list() (list []verbs.SGE) {
	for range g.arg() {
		m := pick(g, g.mrs)
		list = append(list, verbs.SGE{Addr: g.base + g.arg(), Length: uint32(g.arg()), LKey: m.LKey()})
	}
	return list
}

func (g *goProbe) receives() (wrs []verbs.RecvWR) {
	for range g.arg() {
		wrs = append(wrs, verbs.RecvWR{ID: g.arg(), SGList: g.list()})
	}
	return wrs
}

func (g *goProbe) send() ([]uint64, error) {
	q := pick(g, g.qps)
	var wrs []verbs.SendWR
	for range g.arg() {
		w := verbs.SendWR{ID: g.arg(), Opcode: verbs.WROpcode(g.arg()), Flags: verbs.SendFlags(g.arg())}
		imm := g.arg()
		w.Imm, w.InvalidateKey = uint32(imm), verbs.RKey(imm)
		w.RemoteAddr, w.RKey, w.CompareAdd, w.Swap = g.arg(), verbs.RKey(g.arg()), g.arg(), g.arg()
		w.AH, w.RemoteQPN, w.RemoteQKey = pick(g, g.ahs), verbs.QPN(g.arg()), verbs.QKey(g.arg())
		b := &verbs.MWBind{MW: pick(g, g.mws), MR: pick(g, g.mrs), Addr: g.base + g.arg(), Length: g.arg(), Access: verbs.Access(g.arg())}
		if w.Opcode == verbs.WRBindMW {
			w.Bind = b
		}
		w.SGList = g.list()
		if w.Flags&verbs.SendInline != 0 {
			for _, s := range w.SGList {
				at := s.Addr - g.base
				w.Inline = append(w.Inline, g.memory[at:at+uint64(s.Length)])
			}
			w.SGList = nil
		}
		wrs = append(wrs, w)
	}
	n, _ := q.PostSend(wrs)
	return []uint64{uint64(n)}, nil
}

func (g *goProbe) poll() ([]uint64, error) {
	q := pick(g, g.cqs)
	wc := make([]verbs.WC, min(g.int(), 64))
	wc = wc[:q.Poll(wc)]
	answer := []uint64{uint64(len(wc))}
	add := func(list ...uint64) { answer = append(answer, list...) }
	bit := func(f, of verbs.WCFlags) uint64 {
		if f&of != 0 {
			return 1
		}
		return 0
	}
	for i := range wc {
		w := &wc[i]
		add(w.ID, uint64(w.Status), uint64(w.QPN))
		switch {
		case w.Status != verbs.WCSuccess:
			add(uint64(w.VendorErr))
		case w.Opcode >= verbs.WCRecv:
			add(uint64(w.Opcode), uint64(w.ByteLen), uint64(w.SrcQPN), bit(w.Flags, verbs.WCGRH), bit(w.Flags, verbs.WCWithImm), bit(w.Flags, verbs.WCWithInv),
				uint64(w.Imm)|uint64(w.InvalidatedRKey), uint64(w.SLID), uint64(w.SL), uint64(w.DLIDPathBits))
		case w.Opcode == verbs.WCRDMARead:
			add(uint64(w.Opcode), uint64(w.ByteLen))
		default:
			add(uint64(w.Opcode))
		}
	}
	return answer, nil
}

// build builds the C program.
func build(t *testing.T) string {
	t.Helper()
	if program := os.Getenv(programEnv); program != "" {
		return program
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		needtest.Tool(t, "gcc, to build the program of C (apt-get install gcc libc6-dev)")
	}
	for _, file := range []string{"/usr/include/infiniband/mlx5dv.h", "/etc/libibverbs.d/mlx5.driver"} {
		if _, err := os.Stat(file); err != nil {
			needtest.Tool(t, err.Error()+" (apt-get install libibverbs-dev ibverbs-providers, or dnf install rdma-core-devel)")
		}
	}
	out := t.TempDir() + "/probe"
	args := []string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-o", out, "testdata/probe.c", "-libverbs", "-lmlx5"}
	if os.Getenv(deviceEnv) == "" { // with a card, any compiler and headers may be used
		args = append(args, "-Werror")
	}
	cmd := exec.Command("gcc", args...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// environment is the environment of a C program: it writes doorbells without BlueFlame unless blue
// is set, and receives no data inside completions.
func environment(blue bool) []string {
	env := append(os.Environ(), "MLX5_SCATTER_TO_CQE=0")
	if !blue {
		env = append(env, "MLX5_SHUT_UP_BF=1")
	}
	return env
}
