//go:build linux

package main

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// counted is a group that counts the calls of its methods.
type counted struct {
	alone
	barriers, statuses int
	said               ucs.Status
	fails              error
}

func (g *counted) barrier(progress func() int) error {
	g.barriers++
	progress()
	return g.fails
}

func (g *counted) exchangeStatus(s ucs.Status) (ucs.Status, error) {
	g.statuses++
	g.said = s
	return ucs.InProgress, nil
}

// TestTeam: however many threads a team has, it meets the other side once. After a barrier each
// thread sees what all threads have done before it.
func TestTeam(t *testing.T) {
	const rounds = 100
	for _, size := range []int{1, 2, 5} {
		g := new(counted)
		team := newTeam(g, size)
		done := make([]int, size)
		err := team.run(func(id int) error {
			m := team.member(id)
			for round := range rounds {
				done[id]++
				if err := m.barrier(nothing); err != nil {
					return err
				}
				for other, n := range done {
					if n != round+1 {
						t.Errorf("thread %d of %d has done %d rounds, want %d", other, size, n, round+1)
					}
				}
				said := ucs.OK
				if id == 0 {
					said = ucs.ErrBusy
				}
				if s, err := m.exchangeStatus(said); err != nil || s != ucs.InProgress {
					t.Errorf("status: %v, %v", s, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%d threads: %v", size, err)
		}
		if g.barriers != rounds || g.statuses != rounds {
			t.Errorf("%d threads: %d barriers, %d statuses, want %d of each", size, g.barriers, g.statuses, rounds)
		}
		if g.said != ucs.ErrBusy {
			t.Errorf("%d threads: the other side was told %v", size, g.said)
		}
	}
}

// TestTeamFails: a thread fails, or the connection. The other threads must stop waiting.
func TestTeamFails(t *testing.T) {
	broken := errors.New("broken")
	for _, connection := range []bool{false, true} {
		g := new(counted)
		if connection {
			g.fails = broken
		}
		team := newTeam(g, 3)
		err := team.run(func(id int) error {
			if id == 1 && !connection {
				return broken
			}
			m := team.member(id)
			if err := m.barrier(nothing); !errors.Is(err, broken) {
				t.Errorf("thread %d: got %v, want %v", id, err, broken)
			}
			if err := m.alive(); !errors.Is(err, broken) {
				t.Errorf("thread %d is told that it is worth waiting: %v", id, err)
			}
			return errors.New("a consequence")
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
	}
}

// TestTeamFailsAsleep: a thread fails while others are in blocking calls.
func TestTeamFailsAsleep(t *testing.T) {
	t.Setenv("UCX_TLS", "self")
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag | ucp.FeatureWakeup}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	w, err := ctx.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	address, err := w.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for name, wait := range map[string]func(r *ucpRunner) error{
		"in a call": (*ucpRunner).recvBlocking,
		"between rounds": func(r *ucpRunner) error {
			for {
				if err := r.advance(); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			team := newTeam(alone{}, 3)
			if err := team.run(func(id int) error {
				if id == 1 {
					return broken
				}
				return wait(&ucpRunner{
					g: team.member(id), w: w, ep: ep, sleep: true, tag: firstTag, mask: ucp.FullMask, recvBuf: make([]byte, 8),
				})
			}); !errors.Is(err, broken) {
				t.Errorf("got %v, want %v", err, broken)
			}
		})
	}
}
