//go:build linux

package shm

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestRingModel sends over several endpoints to one small ring in random order, with waiting
// requests and kept descriptors, and compares with a list: every accepted message arrives once, in
// the order of acceptance, with its bytes.
func TestRingModel(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"posix": {"POSIX_FIFO_SIZE": "8", "POSIX_RX_BUFS_GROW": "3"},
		"no spare buffers": {
			"POSIX_FIFO_SIZE": "4", "POSIX_RX_MAX_BUFS": "4", "POSIX_FIFO_RELEASE_FACTOR": "0.9",
		},
		"sysv": {"SYSV_FIFO_SIZE": "2", "SYSV_FIFO_ELEM_SIZE": "64", "SYSV_FIFO_RELEASE_FACTOR": "0", "SYSV_RX_BUFS_GROW": "1"},
		"fenced": {
			"POSIX_FIFO_SIZE": "16", "POSIX_FIFO_MAX_POLL": "3", "POSIX_USE_PROC_LINK": "n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			noSegments(t)
			transport := posixName
			if name == "sysv" {
				transport = sysvName
			}
			f := &ucttest.Fixture{Component: component{transport}, Config: setting(t, settings)}
			rapid.Check(t, func(r *rapid.T) {
				t.Run("", func(t *testing.T) { checkModel(t, r, f) })
			})
		})
	}
}

// kept is a descriptor that a handler keeps, with the bytes that it must contain.
type kept struct {
	desc *uct.AMDesc
	data []byte
	want []byte
}

func checkModel(t *testing.T, r *rapid.T, f *ucttest.Fixture) {
	a, b := f.Pair(t)
	defer b.Close(t)
	defer a.Close(t)
	eps := []uct.Endpoint{a.Connect(t, b), a.Connect(t, b), b.Connect(t, b)}
	short := a.Iface.Attr().AM.MaxShort
	var want [][]byte // accepted and not yet received
	var keep []kept
	keeping := 0
	got := func(_ *uct.Source, data []byte, desc *uct.AMDesc) error {
		if len(want) == 0 {
			t.Fatal("a message that nobody has sent")
		}
		ucttest.SameBytes(t, "message", data, want[0])
		if desc != nil && keeping > 0 {
			keeping--
			keep = append(keep, kept{desc, data, want[0]})
			want = want[1:]
			return ucs.InProgress
		}
		want = want[1:]
		return nil
	}
	b.Handle(t, 1, got)
	next := uint64(0)
	// message makes the next message and returns a function that sends it and records it once it is
	// accepted.
	message := func(ep uct.Endpoint, n int) func() error {
		next++
		msg := ucttest.Pattern(max(n, 8), next)
		return func() error {
			var err error
			if n <= short && next%2 == 0 {
				err = ep.AMShort(1, binary.LittleEndian.Uint64(msg), msg[8:], 0, nil)
			} else {
				_, err = ep.AMBcopy(1, &ucttest.Packer{Data: msg}, 0, nil)
			}
			if err == nil {
				want = append(want, msg)
			}
			return err
		}
	}
	waiting := make(map[uct.Endpoint]int)
	ep := rapid.IntRange(0, len(eps)-1)
	size := rapid.OneOf(rapid.IntRange(8, short), rapid.IntRange(8, 8256))
	r.Repeat(map[string]func(*rapid.T){
		"send": func(r *rapid.T) {
			e := eps[ep.Draw(r, "endpoint")]
			err := message(e, size.Draw(r, "size"))()
			if waiting[e] > 0 && err != ucs.ErrNoResource {
				t.Fatalf("sending while requests wait: %v", err)
			}
			if err != nil && err != ucs.ErrNoResource {
				t.Fatal(err)
			}
		},
		"pend": func(r *rapid.T) {
			e := eps[ep.Draw(r, "endpoint")]
			send := message(e, size.Draw(r, "size"))
			p := ucttest.NewPending(func() error {
				err := send()
				if err == nil {
					waiting[e]--
				}
				return err
			})
			switch err := e.PendingAdd(&p.Pending); {
			case err == nil:
				waiting[e]++
			case err != ucs.ErrBusy || waiting[e] > 0:
				t.Fatalf("adding a request with %d waiting: %v", waiting[e], err)
			}
		},
		"receive": func(r *rapid.T) { b.Worker.Progress() },
		"send what waits": func(r *rapid.T) {
			a.Worker.Progress()
		},
		"keep": func(r *rapid.T) { keeping += rapid.IntRange(0, 3).Draw(r, "keep") },
		"release": func(r *rapid.T) {
			if len(keep) == 0 {
				r.Skip("nothing kept")
			}
			k := rapid.IntRange(0, len(keep)-1).Draw(r, "which")
			ucttest.SameBytes(t, "kept message", keep[k].data, keep[k].want)
			keep[k].desc.Release()
			keep = append(keep[:k], keep[k+1:]...)
		},
		"arm": func(r *rapid.T) {
			if err := b.Iface.(uct.Progressor).Arm(uct.EventAny); err == nil && len(want) > 0 {
				t.Fatalf("armed with %d messages in the ring", len(want))
			}
		},
		"": func(r *rapid.T) {
			for _, k := range keep {
				ucttest.SameBytes(t, "kept message", k.data, k.want)
			}
		},
	})
	pending := func() (n int) {
		for _, w := range waiting {
			n += w
		}
		return n
	}
	ucttest.Until(t, "everything", func() bool { return pending() == 0 && len(want) == 0 }, a, b)
	for _, k := range keep {
		ucttest.SameBytes(t, "kept message", k.data, k.want)
		k.desc.Release()
	}
}
