//go:build linux

package ucptest

import "testing"

// TestShutdownWhilePeersConnect checks that endpoints that peers open while a worker shuts down do
// not delay the shutdown.
func TestShutdownWhilePeersConnect(t *testing.T) {
	for _, name := range []string{"tcp", "posix"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name).with(setting{"RNDV_THRESH", "inf"}))
			a, b := r.pair()
			ea := a.connect(b)
			r.must(ea.Flush(nil))
			for range 2 { // the second endpoint has no counterpart
				s, err := b.connect(a).TagSendSync(1, []byte("x"), nil)
				if err != nil {
					t.Fatal(err)
				}
				s.Free()
			}
			for range 20 {
				b.Progress()
			}
			s, err := ea.TagSend(2, make([]byte, 16<<20), nil) // is sent while b reads
			if err != nil {
				t.Fatal(err)
			}
			s.Free()
			done := make(chan error, 1)
			go func() { done <- a.Shutdown(t.Context()) }()
			for over := false; !over; {
				select {
				case err := <-done:
					if err != nil {
						t.Error(err)
					}
					over = true
				default:
					b.Progress()
				}
			}
		})
	}
}
