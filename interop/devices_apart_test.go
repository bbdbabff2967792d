//go:build linux

package interop

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestDevicesApart: UCX_CM_USE_ALL_DEVICES is y on one side and n on the other, one of which is C.
// Since 1.16 the connection data of C say which form they have, and Go's do, too. Those of 1.13 do
// not: its client with n aborts, even with a C server, and its client with y waits for ever, as a
// Go client does for a 1.13 server with n. Those cases are not tested.
func TestDevicesApart(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	const one = "UCX_CM_USE_ALL_DEVICES=n"
	where := newPlace()
	defer where.close()
	ours := buildGo(t)
	ourOne := ours
	ourOne.env = append(slices.Clone(ours.env), one)
	for _, theirs := range buildC(t) {
		theirOne := theirs
		theirOne.env = append(slices.Clone(theirs.env), one)
		for _, test := range []struct {
			name         string
			ours, theirs program
			weServe      bool
			talks, tells bool // with this release; 1.13 has neither
			status       ucs.Status
		}{
			{"server of ours all, client one", ours, theirOne, true, true, false, ucs.OK},
			{"server of ours one, client all", ourOne, theirs, true, true, false, ucs.OK},
			{"client of ours all, server one", ours, theirOne, false, true, false, ucs.OK},
			// C parses data without indices as if it had them, and rejects the client. 1.13
			// continues, and the Go client gets an error after the answer.
			{"client of ours one, server all", ourOne, theirs, false, false, true, ucs.ErrRejected},
		} {
			old := theirs.shortRings()
			if old && !test.tells {
				continue
			}
			t.Run(theirs.name+"/"+test.name, func(t *testing.T) {
				d, err := startDialing(where, test.ours, test.theirs, test.weServe, setting{mode: "peer"}, dialingRoutes[0])
				if err != nil {
					t.Fatal(err)
				}
				defer d.report(t)
				want := test.status
				if old {
					want = ucs.ErrUnsupported
				}
				if err := d.apart(test.talks, want); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// apart connects the two. Unless they should talk, the client must get the status want.
func (d *dialing) apart(talks bool, want ucs.Status) error {
	if err := d.dial(ep, "plain"); err != nil {
		return err
	}
	if _, err := d.called(0); err != nil {
		return err
	}
	if err := d.accept(ep); talks && err != nil {
		return err
	}
	if talks {
		if err := d.talk(8, 100_000); err != nil {
			return err
		}
		return d.part(d.client, d.server)
	}
	status, err := d.client.failure(ep)
	if err == nil && status != want {
		err = fmt.Errorf("the client is told %v, want %v", status, want)
	}
	return err
}
