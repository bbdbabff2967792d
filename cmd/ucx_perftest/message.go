//go:build linux

package main

// pieces splits the memory of a message into its parts.
func pieces(mem []byte, p *params) [][]byte {
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
