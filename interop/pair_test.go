//go:build linux

package interop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// pair is two connected peers. The first one is in the role of this module.
type pair struct {
	ours, theirs *peer
	msgs         messages
	slow         bool    // the connection is slow
	toDie        *region // memory of the peer that TestRDMADeath kills
}

// newPair starts two peers with a setting and connects them over a route.
func newPair(where *place, ours, theirs program, s setting, over route) (*pair, error) {
	return newPairApart(where, where.opposite(), ours, theirs, s, over, over)
}

// newPairApart is newPair with a place and a route for each of the peers.
func newPairApart(here, there *place, ours, theirs program, s setting, over, back route) (*pair, error) {
	p, err := startApart(here, there, ours, theirs, s, over, back)
	if err != nil {
		return nil, err
	}
	if err := p.connect(s.errorMode()); err != nil {
		return nil, errors.Join(err, p.abort())
	}
	return p, nil
}

// startApart is newPairApart without connecting the two.
func startApart(here, there *place, ours, theirs program, s setting, over, back route) (*pair, error) {
	p := new(pair)
	var err error
	p.ours, err = startPeer(here, ours.path,
		slices.Concat(over.env(true), over.errorEnv(s.mode), s.both, ours.envToward(theirs)))
	if err != nil {
		return nil, err
	}
	p.theirs, err = startPeer(there, theirs.path,
		slices.Concat(back.env(false), back.errorEnv(s.mode), s.both, s.theirs, theirs.envToward(ours)))
	if err != nil {
		p.ours.kill()
		return nil, err
	}
	return p, nil
}

// addresses returns the workers' addresses, that of the Go side first.
func (p *pair) addresses() (ours, theirs string, err error) {
	if ours, err = p.ours.address(); err != nil {
		return "", "", err
	}
	theirs, err = p.theirs.address()
	return ours, theirs, err
}

// connect makes an endpoint on each side.
func (p *pair) connect(errorMode string) error {
	a, b, err := p.addresses()
	if err != nil {
		return err
	}
	if err := p.ours.do("connect", ep, errorMode, b); err != nil {
		return err
	}
	return p.theirs.do("connect", ep, errorMode, a)
}

// close flushes and closes both endpoints and ends both processes. In error mode peer, the side
// that closes last may get the failure of the other first.
func (p *pair) close(errorMode string) error {
	for _, side := range []*peer{p.ours, p.theirs} {
		n := side.request()
		if err := side.do("flush", n, "worker"); err != nil {
			return err
		}
		if err := side.finish(n); err != nil {
			return err
		}
	}
	for i, side := range []*peer{p.ours, p.theirs} {
		n := side.request()
		if err := side.do("close", n, ep, "flush"); err != nil {
			return err
		}
		got, err := side.wait(n, 0)
		if err != nil {
			return err
		}
		gone := i > 0 && errorMode == "peer" && got.status.IsError()
		if got.status != ucs.OK && !gone {
			return side.statusError("close", got.status)
		}
	}
	return errors.Join(p.ours.exit(), p.theirs.exit())
}

// abort kills both processes and returns the end of their output as an error.
func (p *pair) abort() error {
	p.ours.kill()
	p.theirs.kill()
	var said []error
	for _, side := range []*peer{p.ours, p.theirs} {
		if text := strings.TrimSpace(side.process.output.String()); text != "" {
			said = append(said, fmt.Errorf("standard error of %s:\n%s", side.name, text))
		}
	}
	return errors.Join(said...)
}

// report logs the end of the programs' output if the test has failed, and ends them.
func (p *pair) report(t *testing.T) {
	if said := p.abort(); t.Failed() && said != nil {
		t.Log(said)
	}
}

// meet exchanges first messages.
func (p *pair) meet(t *testing.T) {
	t.Helper()
	if err := expected("contig", "contig", "sync")(p.ours, p.theirs, &p.msgs, 100); err != nil {
		t.Fatal(err)
	}
}
