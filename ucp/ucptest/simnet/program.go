//go:build simulate

package simnet

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Program is a load for a world: processes with workers, and for each goroutine of a worker a list
// of steps. It is data: a generator makes it from a seed (Generate), it can be printed and read
// (WriteTo, ReadProgram), and steps can be removed from it (Shrink).
type Program struct {
	Seed      uint64 // of the world
	Hosts     int
	PeerMode  bool // the error mode of all endpoints is ErrModePeer
	Listen    bool // endpoints are made by the socket address of a listener
	Slow      int  // nanoseconds of a byte on all ways, 0 for those of a fast network
	Processes []ProcessPlan
	Faults    []Fault
}

// ProcessPlan describes a process.
type ProcessPlan struct {
	Host     int
	Settings []string // NAME=value, without the prefix
	Multi    bool     // thread mode multi
	Sleep    bool     // goroutines wait by Worker.Wait, not by polling
	Arm      bool     // goroutines wait by Worker.Arm and for the event descriptor
	NoLoop   bool     // a worker connects to itself as to others (EndpointNoLoopback)

	Background bool // a goroutine of the library progresses each worker
	Workers    []WorkerPlan
}

// has reports whether a setting begins with a name.
func (pr *ProcessPlan) has(name string) bool {
	return slices.ContainsFunc(pr.Settings, func(s string) bool { return strings.HasPrefix(s, name) })
}

// uses reports whether the process may use a transport.
func (pr *ProcessPlan) uses(transport string) bool {
	return slices.ContainsFunc(pr.Settings, func(s string) bool {
		return strings.HasPrefix(s, "TLS=") && strings.Contains(s, transport)
	})
}

// WorkerPlan describes a worker. Workers are numbered through all processes.
type WorkerPlan struct {
	Goroutines [][]Step
}

// Step is an element of a program. The fields that a kind of step does not use are 0.
type Step struct {
	Kind  string
	ID    int           // id of the first message; the others follow
	N     int           // number of operations
	Peer  int           // worker
	Size  int           // bytes
	Head  int           // bytes of the header of an active message
	Class int           // class of a tag, or id of an active message
	Mask  int           // which tags a receive accepts: maskClass and so on
	How   int           // what the receiver of an active message does with it
	Off   int           // offset in remote memory
	Flags Flags         // bits
	Wait  time.Duration // how long the goroutine waits for the operations; 0 is not at all
	Delay time.Duration // how long the goroutine sleeps before the step
}

// blocks reports whether the step uses the form of the call that waits.
func (s *Step) blocks() bool { return s.Flags&flagBlock != 0 && s.Wait > 0 }

// Flags of steps.
type Flags int

const (
	flagSync     Flags = 1 << iota // synchronous send
	flagBlock                      // the form of the call that waits
	flagNoImm                      // OpNoImmediate
	flagForce                      // OpForceImmediate
	flagFast                       // OpFastComplete
	flagMulti                      // OpMultiSend
	flagCallback                   // with a callback
	flagIOV                        // scatter-gather list
	flagGeneric                    // datatype of the application
	flagEager                      // AMSendEager
	flagRndv                       // AMSendRndv
	flagReply                      // AMSendReply, and the receiver replies
	flagCopy                       // AMSendCopyHeader
	flagAll                        // StreamRecvWaitAll
	flagCancel                     // canceled after the wait
	flagFree                       // requests are freed
	flagWord32                     // atomic operation on 32 bits
	flagMemory                     // the buffer is in memory that is mapped for the operation
	flagOwn                        // with a Request of the caller's
	flagChain                      // the callback of a send, or the handler of the message, sends another message
)

var flagNames = []string{
	"sync", "block", "noimm", "force", "fast", "multi", "callback", "iov", "generic", "eager", "rndv",
	"reply", "copy", "all", "cancel", "free", "word32", "memory", "own", "chain",
}

// String lists the names of the flags.
func (f Flags) String() string {
	var names []string
	for k, name := range flagNames {
		if f&(1<<k) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func parseFlags(s string) (f Flags, err error) {
	for name := range strings.SplitSeq(s, ",") {
		k := slices.Index(flagNames, name)
		if k < 0 {
			return 0, fmt.Errorf("unknown flag %q", name)
		}
		f |= 1 << k
	}
	return f, nil
}

// field is a number of a step in the text form.
type field struct {
	name string
	at   func(*Step) *int
}

var fields = []field{
	{"id", func(s *Step) *int { return &s.ID }},
	{"n", func(s *Step) *int { return &s.N }},
	{"peer", func(s *Step) *int { return &s.Peer }},
	{"size", func(s *Step) *int { return &s.Size }},
	{"head", func(s *Step) *int { return &s.Head }},
	{"class", func(s *Step) *int { return &s.Class }},
	{"mask", func(s *Step) *int { return &s.Mask }},
	{"how", func(s *Step) *int { return &s.How }},
	{"off", func(s *Step) *int { return &s.Off }},
}

// String returns the step as text.
func (s Step) String() string {
	var b strings.Builder
	b.WriteString(s.Kind)
	for _, f := range fields {
		if v := *f.at(&s); v != 0 {
			fmt.Fprintf(&b, " %s=%d", f.name, v)
		}
	}
	if s.Flags != 0 {
		fmt.Fprintf(&b, " flags=%s", s.Flags)
	}
	if s.Wait != 0 {
		fmt.Fprintf(&b, " wait=%s", s.Wait)
	}
	if s.Delay != 0 {
		fmt.Fprintf(&b, " delay=%s", s.Delay)
	}
	return b.String()
}

func parseStep(words []string) (s Step, err error) {
	s.Kind = words[0]
	if _, ok := kinds[s.Kind]; !ok {
		return s, fmt.Errorf("unknown step %q", s.Kind)
	}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		k := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		switch {
		case k >= 0:
			*fields[k].at(&s), err = strconv.Atoi(value)
		case name == "flags":
			s.Flags, err = parseFlags(value)
		case name == "wait":
			s.Wait, err = time.ParseDuration(value)
		case name == "delay":
			s.Delay, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("unknown field %q", name)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// String returns the program as text.
func (p *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "program seed=%d hosts=%d", p.Seed, p.Hosts)
	if p.PeerMode {
		b.WriteString(" peer")
	}
	if p.Listen {
		b.WriteString(" listen")
	}
	if p.Slow != 0 {
		fmt.Fprintf(&b, " slow=%d", p.Slow)
	}
	b.WriteByte('\n')
	worker := 0
	for _, pr := range p.Processes {
		fmt.Fprintf(&b, "process host=%d", pr.Host)
		if pr.Multi {
			b.WriteString(" multi")
		}
		if pr.Sleep {
			b.WriteString(" sleep")
		}
		if pr.Arm {
			b.WriteString(" arm")
		}
		if pr.NoLoop {
			b.WriteString(" noloop")
		}
		if pr.Background {
			b.WriteString(" background")
		}
		for _, s := range pr.Settings {
			b.WriteString(" " + s)
		}
		b.WriteByte('\n')
		for _, w := range pr.Workers {
			fmt.Fprintf(&b, "worker %d\n", worker)
			worker++
			for _, g := range w.Goroutines {
				b.WriteString("goroutine\n")
				for _, s := range g {
					fmt.Fprintf(&b, "\t%s\n", s)
				}
			}
		}
	}
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "fault %s\n", f)
	}
	return b.String()
}

// ReadProgram reads a program in the form of String. Lines that begin with # are comments.
func ReadProgram(r io.Reader) (*Program, error) {
	p := &Program{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if err := p.readLine(words); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return p, lines.Err()
}

func (p *Program) readLine(words []string) (err error) {
	process := func() *ProcessPlan { return &p.Processes[len(p.Processes)-1] }
	worker := func() *WorkerPlan { w := process().Workers; return &w[len(w)-1] }
	switch words[0] {
	case "program":
		for _, w := range words[1:] {
			switch name, value, _ := strings.Cut(w, "="); name {
			case "seed":
				p.Seed, err = strconv.ParseUint(value, 10, 64)
			case "hosts":
				p.Hosts, err = strconv.Atoi(value)
			case "peer":
				p.PeerMode = true
			case "listen":
				p.Listen = true
			case "slow":
				p.Slow, err = strconv.Atoi(value)
			default:
				err = fmt.Errorf("unknown word %q", w)
			}
			if err != nil {
				return err
			}
		}
	case "process":
		p.Processes = append(p.Processes, ProcessPlan{})
		for _, w := range words[1:] {
			switch name, value, _ := strings.Cut(w, "="); {
			case name == "host":
				process().Host, err = strconv.Atoi(value)
			case name == "multi":
				process().Multi = true
			case name == "sleep":
				process().Sleep = true
			case name == "arm":
				process().Arm = true
			case name == "noloop":
				process().NoLoop = true
			case name == "background":
				process().Background = true
			default:
				process().Settings = append(process().Settings, w)
			}
			if err != nil {
				return err
			}
		}
	case "fault":
		f, err := parseFault(words[1:])
		if err != nil {
			return err
		}
		p.Faults = append(p.Faults, f)
	case "worker":
		process().Workers = append(process().Workers, WorkerPlan{})
	case "goroutine":
		worker().Goroutines = append(worker().Goroutines, nil)
	default:
		s, err := parseStep(words)
		if err != nil {
			return err
		}
		w := worker()
		k := len(w.Goroutines) - 1
		w.Goroutines[k] = append(w.Goroutines[k], s)
	}
	return nil
}

// Clone returns a copy of the program.
func (p *Program) Clone() *Program {
	q := *p
	q.Faults = slices.Clone(p.Faults)
	q.Processes = slices.Clone(p.Processes)
	for i := range q.Processes {
		pr := &q.Processes[i]
		pr.Settings = slices.Clone(pr.Settings)
		pr.Workers = slices.Clone(pr.Workers)
		for j := range pr.Workers {
			w := &pr.Workers[j]
			w.Goroutines = slices.Clone(w.Goroutines)
			for k := range w.Goroutines {
				w.Goroutines[k] = slices.Clone(w.Goroutines[k])
			}
		}
	}
	return &q
}

// lists returns the lists of steps.
func (p *Program) lists() (all []*[]Step) {
	for i := range p.Processes {
		for j := range p.Processes[i].Workers {
			w := &p.Processes[i].Workers[j]
			for k := range w.Goroutines {
				all = append(all, &w.Goroutines[k])
			}
		}
	}
	return all
}

// workers returns the number of workers.
func (p *Program) workers() (n int) {
	for i := range p.Processes {
		n += len(p.Processes[i].Workers)
	}
	return n
}

// Steps returns the number of steps.
func (p *Program) Steps() (n int) {
	for _, l := range p.lists() {
		n += len(*l)
	}
	return n
}
