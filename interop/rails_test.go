//go:build linux

package interop

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
)

// The second cable between two linked places.
const (
	firstRail, firstRailAddress   = "ucx2", "198.19.0.1/24"
	secondRail, secondRailAddress = "ucx3", "198.19.0.2/24"
)

// TestRails: two machines with two cables between them, each cable a network. Large messages use
// both, whichever side has opened which connection.
func TestRails(t *testing.T) {
	c := buildC(t)
	ours := buildGo(t)
	here, there := newRails(t)
	over, back := network(device{"two cables", firstDevice + "," + firstRail}), network(device{"two cables", secondDevice + "," + secondRail})
	for _, theirs := range append([]program{ours}, c...) {
		for _, mode := range []string{"none", "peer"} {
			t.Run(theirs.name+"/"+mode, func(t *testing.T) {
				p, err := newPairApart(here, there, ours, theirs, setting{mode: mode}, over, back)
				if err != nil {
					t.Fatal(err)
				}
				defer p.report(t)
				send := expected("contig", "contig", "async")
				for _, size := range []int{8, 32 << 20, 1 << 20} {
					if err := send(p.theirs, p.ours, &p.msgs, size); err != nil {
						t.Fatalf("to us, %d bytes: %v", size, err)
					}
					if err := send(p.ours, p.theirs, &p.msgs, size); err != nil {
						t.Fatalf("from us, %d bytes: %v", size, err)
					}
				}
				if err := p.close(mode); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestOneSidedRails: first only the other side makes an endpoint, over two cables or from another
// device than it listens at; then the Go side makes one, too. All messages, gets and puts in
// between work.
func TestOneSidedRails(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	c := buildC(t)
	ours := buildGo(t)
	here, there := newRails(t)
	for _, way := range []struct {
		name       string
		over, back string
		both       bool // the Go side can make an endpoint
	}{
		{"two cables", firstDevice + "," + firstRail, secondDevice + "," + secondRail, true},
		{"one is known", firstDevice + "," + firstRail, secondRail, true},
		{"by another way", firstDevice, secondRail, false},
	} {
		over, back := network(device{way.name, way.over}), network(device{way.name, way.back})
		for _, theirs := range append([]program{ours}, c...) {
			if !way.both && majorMinor(theirs.name) != "1.13" {
				continue // others need a route from their device
			}
			for _, mode := range []string{"none", "peer"} {
				t.Run(way.name+"/"+theirs.name+"/"+mode, func(t *testing.T) {
					p, err := startApart(here, there, ours, theirs, setting{mode: mode}, over, back)
					if err != nil {
						t.Fatal(err)
					}
					defer p.report(t)
					if err := p.answered(mode, way.both); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// answered makes the other side run operations that need answers of the Go side, which has no
// endpoint yet.
func (p *pair) answered(mode string, both bool) error {
	a, b, err := p.addresses()
	if err != nil {
		return err
	}
	if err := p.theirs.do("connect", ep, mode, a); err != nil {
		return err
	}
	sizes := []int{8, 1 << 20, 32 << 20}
	if p.slow {
		sizes = []int{8, 1 << 17}
	}
	toUs := func() error {
		for _, size := range sizes {
			for _, how := range []string{"sync", "async"} {
				if err := expected("contig", "contig", how)(p.theirs, p.ours, &p.msgs, size); err != nil {
					return fmt.Errorf("%s, %d bytes: %w", how, size, err)
				}
			}
		}
		if p.theirs.isC() && mode == "peer" {
			return nil // 1.22.0 has no software puts and gets in this mode
		}
		for name, access := range map[string]operationFunc{
			"put": on(own, putting), "get": on(own, getting)} {
			if err := access(p.theirs, p.ours, &p.msgs, sizes[1]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
	if err := toUs(); err != nil {
		return fmt.Errorf("to us: %w", err)
	}
	if both {
		if err := p.ours.do("connect", ep, mode, b); err != nil {
			return err
		}
		for _, size := range sizes {
			if err := expected("contig", "contig", "sync")(p.ours, p.theirs, &p.msgs, size); err != nil {
				return fmt.Errorf("from us, %d bytes: %w", size, err)
			}
		}
		if err := toUs(); err != nil {
			return fmt.Errorf("to us, again: %w", err)
		}
		return p.close(mode)
	}
	n := p.theirs.request()
	if err := p.theirs.do("close", n, ep, "flush"); err != nil {
		return err
	}
	if err := p.theirs.finish(n); err != nil {
		return err
	}
	return errors.Join(p.theirs.exit(), p.ours.exit())
}

// newRails makes two places with two cables between them.
func newRails(t *testing.T) (here, there *place) {
	t.Helper()
	here, there, err := newLinkedPlaces()
	if err != nil {
		needtest.Right(t, "two network namespaces: "+err.Error())
	}
	t.Cleanup(here.close)
	t.Cleanup(there.close)
	var thread int
	there.do(func() { thread = unix.Gettid() })
	err = here.ip("link add "+firstRail+" type veth peer name "+secondRail,
		"link set "+secondRail+" netns "+strconv.Itoa(thread),
		"addr add "+firstRailAddress+" dev "+firstRail,
		"link set "+firstRail+" up")
	if err == nil {
		err = there.ip("addr add "+secondRailAddress+" dev "+secondRail, "link set "+secondRail+" up")
	}
	if err != nil {
		t.Fatal(err)
	}
	return here, there
}
