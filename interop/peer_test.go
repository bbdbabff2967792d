//go:build linux

package interop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// Limits for hangs, not for speed.
const (
	operationLimit = 60 * time.Second // for an operation, applied by the peer
	replyLimit     = 90 * time.Second // for any reply, applied by the driver
	exitLimit      = 30 * time.Second
)

// requestNumbers is the number of requests that a peer can hold.
const requestNumbers = 256

var errTimeout = errors.New("timeout")

// peer is a process that runs operations on command; see the package comment.
type peer struct {
	name    string // implementation and version, as the peer reports them
	process *process
	stdin   io.WriteCloser
	replies chan string // closed at the end of output
	last    int         // last request number used
}

// startPeer starts a peer program and waits until it is ready.
func startPeer(where *place, program string, env []string) (*peer, error) {
	cmd := exec.Command(program)
	cmd.Env = append(cleanEnv(), env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &peer{stdin: stdin, replies: make(chan string, 1)}
	go func() {
		defer close(p.replies)
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.replies <- lines.Text()
		}
	}()
	if p.process, err = where.start(cmd); err != nil {
		stdout.Close()
		return nil, err
	}
	line, err := p.reply()
	name, ready := strings.CutPrefix(line, "ready ")
	if err == nil && !ready {
		err = fmt.Errorf("greeting %q", line)
	}
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("start of %s: %w\n%s", program, err, p.process.output.String())
	}
	p.name = name
	return p, nil
}

// cleanEnv returns the environment without settings of UCX.
func cleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "UCX_") {
			env = append(env, v)
		}
	}
	return env
}

// reply returns the next line of the peer.
func (p *peer) reply() (string, error) {
	select {
	case line, open := <-p.replies:
		if !open {
			err := p.process.wait(exitLimit)
			return "", fmt.Errorf("%s ended (%v)\n%s", p.name, err, p.process.output.String())
		}
		return line, nil
	case <-time.After(replyLimit):
		return "", fmt.Errorf("%s does not answer", p.name)
	}
}

// command sends a command and returns the values of its reply.
func (p *peer) command(words ...any) ([]string, error) {
	if err := p.tell(words...); err != nil {
		return nil, err
	}
	return p.answer(words...)
}

// tell sends a command. The answer must be read before the next command.
func (p *peer) tell(words ...any) error {
	if _, err := fmt.Fprintln(p.stdin, words...); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// answer returns the values of the reply to a command.
func (p *peer) answer(words ...any) ([]string, error) {
	answer, err := p.reply()
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(answer)
	switch {
	case len(fields) > 0 && fields[0] == "ok":
		return fields[1:], nil
	case answer == "timeout":
		err = errTimeout
	default:
		err = commandError(answer)
	}
	line := strings.TrimSuffix(fmt.Sprintln(words...), "\n")
	if len(line) > 60 {
		line = line[:60] + "…"
	}
	return nil, fmt.Errorf("%s: %s: %w", p.name, line, err)
}

// commandError is a peer's message about a command that has failed.
type commandError string

func (e commandError) Error() string { return string(e) }

// do is command for replies without values.
func (p *peer) do(words ...any) error {
	_, err := p.command(words...)
	return err
}

// address returns the worker address in hexadecimal.
func (p *peer) address() (string, error) {
	values, err := p.command("address")
	if err == nil && len(values) != 1 {
		err = fmt.Errorf("%s: address reply %q", p.name, values)
	}
	if err != nil {
		return "", err
	}
	return values[0], nil
}

// request returns the number for the next request.
func (p *peer) request() int {
	p.last = (p.last + 1) % requestNumbers
	return p.last
}

// send starts a send on endpoint ep and returns the number of its request.
func (p *peer) send(ep int, m message, layout, mode string) (int, error) {
	n := p.request()
	return n, p.do("send", n, ep, m.tag, m.size, m.seed, layout, mode)
}

// recv posts a receive of up to size bytes.
func (p *peer) recv(tag, mask tag, size int, layout string) (int, error) {
	n := p.request()
	return n, p.do("recv", n, tag, mask, size, layout)
}

// probe waits until a message with the tag has arrived unexpectedly and returns its description;
// how is "keep" or "take".
func (p *peer) probe(t tag, how string) (result, error) {
	values, err := p.command("probe", t, fullMask, how, operationLimit.Milliseconds())
	if err != nil {
		return result{}, err
	}
	return parseResult(append([]string{"0"}, values...))
}

// mrecv starts to receive the message that probe has taken.
func (p *peer) mrecv(size int, layout string) (int, error) {
	n := p.request()
	return n, p.do("mrecv", n, size, layout)
}

// wait waits for a request and returns its result.
func (p *peer) wait(request int, seed uint64) (result, error) {
	return p.waitFor(request, seed, operationLimit)
}

func (p *peer) waitFor(request int, seed uint64, limit time.Duration) (result, error) {
	values, err := p.command("wait", request, seed, limit.Milliseconds())
	if err != nil {
		return result{}, err
	}
	return parseResult(values)
}

// finish waits for a request that must succeed and is not a receive.
func (p *peer) finish(request int) error {
	r, err := p.wait(request, 0)
	if err == nil && r.status != ucs.OK {
		err = p.statusError("request", r.status)
	}
	return err
}

// isC reports whether the peer is C UCX.
func (p *peer) isC() bool { return strings.HasPrefix(p.name, "C ") }

// exit ends the peer normally.
func (p *peer) exit() error {
	if err := p.do("exit"); err != nil {
		return err
	}
	p.stdin.Close()
	return p.process.wait(exitLimit)
}

// kill kills the peer, which may have exited already.
func (p *peer) kill() {
	p.process.kill()
	p.stdin.Close()
	for range p.replies { // so that the reading goroutine ends
	}
}

// result is a peer's description of a completed request or a probed message.
type result struct {
	status  ucs.Status
	tag     tag
	length  int
	verdict string // for receives: "same" or what is wrong with the data
}

// parseResult parses STATUS [TAG LENGTH [VERDICT]].
func parseResult(values []string) (result, error) {
	var r result
	bad := fmt.Errorf("malformed result %q", values)
	if len(values) == 0 || len(values) == 2 || len(values) > 4 {
		return r, bad
	}
	status, err := strconv.ParseInt(values[0], 0, 8)
	if err != nil {
		return r, bad
	}
	r.status = ucs.Status(status)
	if len(values) > 1 {
		t, err := strconv.ParseUint(values[1], 0, 64)
		if err != nil {
			return r, bad
		}
		r.tag = tag(t)
		if r.length, err = strconv.Atoi(values[2]); err != nil {
			return r, bad
		}
	}
	if len(values) > 3 {
		r.verdict = values[3]
	}
	return r, nil
}
