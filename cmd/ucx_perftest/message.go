package main

import "github.com/ucx-go/ucx/cmd/internal/perfoob"

// newMessage allocates the memory of a message, at least a byte.
func newMessage(p *perfoob.Params) []byte { return make([]byte, max(p.Extent(), 1)) }

// pieces cuts the memory of a message into its parts.
func pieces(mem []byte, p *perfoob.Params) [][]byte {
	list := make([][]byte, 0, len(p.Sizes))
	off := 0
	for _, n := range p.Sizes {
		list = append(list, mem[off:off+n:off+n])
		if p.Stride > 0 {
			off += p.Stride
		} else {
			off += n
		}
	}
	return list
}
