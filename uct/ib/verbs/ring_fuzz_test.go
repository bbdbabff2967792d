//go:build linux

package verbs_test

import (
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// FuzzRing makes a simulated device execute arbitrary work requests, from rings with arbitrary
// indices. It may fail them, but must still serve other queue pairs.
func FuzzRing(f *testing.F) {
	for opcode := range byte(12) {
		for _, flags := range []byte{2, 10} {
			b := make([]byte, 256)
			b[16], b[20] = opcode, flags       // struct rxe_send_wr, rdma_user_rxe.h
			b[180], b[184], b[192] = 16, 16, 1 // struct rxe_dma_info: length, resid, num_sge
			binary.NativeEndian.PutUint64(b[208:], 0x1000)
			f.Add(byte(verbs.RC), uint32(1), b)
			f.Add(byte(verbs.UD), uint32(3), b)
		}
	}
	fuzztest.Run(f, func(t *testing.T, typ byte, producer uint32, data []byte) {
		r := fabricRig(t)
		open, dev := r.open, (*seen)(nil)
		r.open = func(t *testing.T) *verbs.Context {
			dev = &seen{muffled: muffled{File: r.kernel.Open()}}
			c := must(verbs.NewContext(dev, 2))(t)
			t.Cleanup(func() { check(t, c.Close()) })
			return c
		}
		a, b := r.pair(t, verbs.QPType(2+typ%3))
		path := r.local.To(r.peer.gid)
		must(a.pd.CreateAH(&path))(t)
		b.recv(t, verbs.RecvWR{SGList: b.at(0, 100)}, verbs.RecvWR{})
		sq := dev.maps[1]
		for i := 0; len(data) > 0; i++ {
			data = data[copy(dev.slot(i), data):]
			if i == 60 {
				break
			}
		}
		binary.NativeEndian.PutUint32(sq[ringProducer:], producer)
		r.kernel.Progress()
		r.open = open
		c, d := r.pair(t, verbs.RC)
		c.works(t, d, 1)
	})
}
