package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// The methods of datatypes, called as all functions of the application are: a panic
// ends the operation with an error, and is raised by the outermost call besides. A
// panic of a datatype that no worker's operation has started, w nil, goes straight
// through.

// errDatatype is the end of an operation whose datatype has panicked.
var errDatatype = fmt.Errorf("ucp: the datatype has panicked: %w", ucs.ErrCanceled)

// startPack begins the packing of b.
func (w *Worker) startPack(b *Buffer) (st PackState, err error) {
	err = errDatatype
	w.run(func() { st, err = b.generic.ops.StartPack(b.object, b.count) })
	if st == nil && err == nil {
		err = errNoState("StartPack")
	}
	return st, err
}

func (w *Worker) startUnpack(b *Buffer) (st UnpackState, err error) {
	err = errDatatype
	w.run(func() { st, err = b.generic.ops.StartUnpack(b.object, b.count) })
	if st == nil && err == nil {
		err = errNoState("StartUnpack")
	}
	return st, err
}

//go:noinline
func errNoState(method string) error {
	return fmt.Errorf("ucp: %s of the datatype has returned neither a state nor an error: %w", method, ucs.ErrInvalidParam)
}

// state is what both kinds of states have.
type state interface {
	PackedSize() int
	Finish()
}

func (w *Worker) packedSize(st state) (n int, err error) {
	err = errDatatype
	w.run(func() { n, err = st.PackedSize(), nil })
	return n, err
}

func (w *Worker) finishState(st state) { w.run(st.Finish) }

// packState packs nothing where the datatype panics.
func (w *Worker) packState(st PackState, off int, dst []byte) (n int) {
	w.run(func() { n = st.Pack(off, dst) })
	return n
}

func (w *Worker) unpackState(st UnpackState, off int, src []byte) (err error) {
	err = errDatatype
	w.run(func() { err = st.Unpack(off, src) })
	return err
}
