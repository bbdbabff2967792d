//go:build linux

package ucptest

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// doomedVar is the environment variable that makes the test binary a peer that obeys commands until
// it is killed. Its value is the settings.
const doomedVar = "UCPTEST_DOOMED"

func TestMain(m *testing.M) {
	if s, ok := os.LookupEnv(doomedVar); ok {
		if err := beDoomed(strings.Fields(s)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if s, ok := os.LookupEnv(audienceVar); ok {
		if err := beAudience(strings.Fields(s)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// dyingProcess is a process with a worker, memory that peers may access, and an endpoint once it is
// told to create one.
type dyingProcess struct {
	*rig
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	address ucp.Address
	key     []byte
	memory  uint64
	unheard int // answers that the test has not read yet
	ended   bool
}

// doomedMemory is the size of the memory that the process exposes.
const doomedMemory = 4 << 20

// doomed starts such a process with the settings of the rig.
func (r *rig) doomed() *dyingProcess {
	r.Helper()
	exe, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	d := &dyingProcess{rig: r, cmd: exec.Command(exe)}
	var list []string
	for _, s := range r.settings {
		list = append(list, s.String())
	}
	d.cmd.Env = append(os.Environ(), doomedVar+"="+strings.Join(list, " "))
	d.cmd.Stderr = os.Stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := d.cmd.StdinPipe()
	if err != nil {
		r.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	d.in, d.out = in, bufio.NewScanner(out)
	d.out.Buffer(nil, 1<<20)
	if err := d.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(d.kill)
	f := strings.Fields(d.line())
	if len(f) != 3 {
		r.Fatalf("the peer says %q", f)
	}
	if d.address, err = hex.DecodeString(f[0]); err == nil {
		d.key, err = hex.DecodeString(f[1])
	}
	if err == nil {
		_, err = fmt.Sscan(f[2], &d.memory)
	}
	if err != nil {
		r.Fatal(err)
	}
	return d
}

func (d *dyingProcess) line() string {
	d.Helper()
	if !d.out.Scan() {
		d.Fatalf("the peer has ended: %v", d.out.Err())
	}
	return d.out.Text()
}

// do sends a command and waits until it is started.
func (d *dyingProcess) do(format string, args ...any) {
	d.Helper()
	fmt.Fprintf(d.in, format+"\n", args...)
	for ; d.unheard > 0; d.unheard-- {
		d.line()
	}
	if got := d.line(); got != "ok" {
		d.Fatalf("the peer says %q", got)
	}
}

// kill kills the process and waits for its end.
func (d *dyingProcess) kill() {
	if d.ended {
		return
	}
	d.ended = true
	_ = d.cmd.Process.Kill() // the process may have exited
	d.in.Close()
	_ = d.cmd.Wait() // reports only that it was killed
}

// stop stops the process (SIGSTOP) and waits until it is stopped.
func (d *dyingProcess) stop() {
	d.Helper()
	err := d.cmd.Process.Signal(syscall.SIGSTOP)
	var info unix.Siginfo
	for err == nil {
		if err = unix.Waitid(unix.P_PID, d.cmd.Process.Pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil); err == nil {
			return
		}
		if err == unix.EINTR {
			err = nil
		}
	}
	d.Fatal(err)
}

// resume continues a stopped process.
func (d *dyingProcess) resume() {
	d.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		d.Fatal(err)
	}
}

// endLimit is the time after which something that must end counts as hanging.
const endLimit = 60 * time.Second

// ends progresses until cond holds, even if other things keep happening.
func (r *rig) ends(what string, cond func() bool) {
	r.Helper()
	for limit := time.Now().Add(endLimit); !cond(); {
		if r.progress() == 0 {
			r.sleep(1)
		}
		if time.Now().After(limit) {
			r.Fatalf("it does not end: %s", what)
		}
	}
}

// beDoomed runs the other process. Commands:
//
//	connect MODE ADDRESS   creates the endpoint
//	send TAG SIZE          sends a message
//	sync TAG SIZE          sends a synchronous message
//	recv TAG SIZE          posts a receive
//	close                  closes the endpoint at once
//	pause                  stops progressing
//	exit                   exits without closing anything
func beDoomed(settings []string) error {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		return err
	}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		if err := cfg.Modify(name, value); err != nil {
			return err
		}
	}
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: oneSided}, cfg)
	if err != nil {
		return err
	}
	w, err := ctx.NewWorker(ucp.WorkerParams{})
	if err != nil {
		return err
	}
	fd, err := w.EventFD()
	if err != nil {
		return err
	}
	m, err := ctx.MemMap(ucp.MemMapParams{Buffer: make([]byte, doomedMemory)})
	if err != nil {
		return err
	}
	key, err := m.PackRkey()
	if err != nil {
		return err
	}
	address, err := w.Address(0)
	if err != nil {
		return err
	}
	fmt.Printf("%x %x %d\n", []byte(address), key, m.Attr().Address)
	commands := make(chan string)
	go func() {
		defer close(commands)
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			commands <- in.Text()
		}
	}()
	var ep *ucp.Endpoint
	paused := false
	for {
		select {
		case line, ok := <-commands:
			if !ok {
				return nil
			}
			f := strings.Fields(line)
			answer := "ok"
			switch f[0] {
			case "pause":
				paused = true
			case "exit":
				fmt.Println(answer)
				return nil
			default:
				if ep, err = obey(w, ep, f); err != nil {
					answer = err.Error() // the other side may have closed its endpoint
				}
			}
			fmt.Println(answer)
		default:
			if paused || w.Progress() == 0 {
				unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1)
			}
		}
	}
}

// obey carries out a command that uses the worker.
func obey(w *ucp.Worker, ep *ucp.Endpoint, f []string) (*ucp.Endpoint, error) {
	var mode ucp.ErrMode
	var packed []byte
	var tag ucp.Tag
	var n int
	var err error
	switch {
	case f[0] == "connect":
		if _, err = fmt.Sscan(f[1], &mode); err == nil {
			packed, err = hex.DecodeString(f[2])
		}
	case len(f) == 3:
		if _, err = fmt.Sscan(f[1], &tag); err == nil {
			_, err = fmt.Sscan(f[2], &n)
		}
	}
	if err != nil {
		return ep, err
	}
	if ep == nil && f[0] != "connect" && f[0] != "recv" {
		return nil, ucs.ErrNotConnected
	}
	full := slices.Repeat([]byte{0xA5}, n)
	switch f[0] {
	case "connect":
		return w.NewEndpoint(ucp.EndpointParams{Address: packed, ErrMode: mode})
	case "send":
		_, err = ep.TagSend(tag, full, nil)
	case "sync":
		_, err = ep.TagSendSync(tag, full, nil)
	case "recv":
		_, err = w.TagRecv(tag, ucp.FullMask, full, nil)
	case "close":
		err = ep.Close()
	default:
		err = fmt.Errorf("no such command: %q", f)
	}
	return ep, err
}
