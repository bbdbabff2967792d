//go:build linux

package ucptest

import (
	"errors"

	"github.com/ucx-go/ucx/ucp"
)

// sliceType is a generic datatype whose objects are byte slices. It counts states,
// packs unevenly and fails on request.
type sliceType struct {
	dt        *ucp.GenericType
	started   int
	finished  int
	packs     int
	step      int   // most bytes that one Pack returns, 0: no limit
	packStop  int   // Pack returns 0 from this offset on, 0: never
	unpackErr error // result of every Unpack
	unpacks   int
}

var errUnpack = errors.New("cannot unpack this")

func newSlices() *sliceType {
	d := &sliceType{step: 1000}
	d.dt = ucp.NewGeneric(d)
	return d
}

func (d *sliceType) StartPack(object any, count int) (ucp.PackState, error) {
	d.started++
	return &sliceState{d, object.([]byte)[:count]}, nil
}

func (d *sliceType) StartUnpack(object any, count int) (ucp.UnpackState, error) {
	d.started++
	return &sliceState{d, object.([]byte)[:count]}, nil
}

type sliceState struct {
	d   *sliceType
	mem []byte
}

func (s *sliceState) PackedSize() int { return len(s.mem) }
func (s *sliceState) Finish()         { s.d.finished++ }

func (s *sliceState) Pack(off int, dst []byte) int {
	s.d.packs++
	if s.d.packStop > 0 && off >= s.d.packStop {
		return 0
	}
	if s.d.step > 0 {
		dst = dst[:min(len(dst), s.d.step)]
	}
	return copy(dst, s.mem[off:])
}

func (s *sliceState) Unpack(off int, src []byte) error {
	s.d.unpacks++
	if s.d.unpackErr != nil {
		return s.d.unpackErr
	}
	copy(s.mem[off:], src)
	return nil
}
