//go:build linux

package verbstest

import (
	"encoding/hex"
	"fmt"
)

// parse is an entry that is read, segment by segment.
type parse struct {
	s    *mlx5SQ
	b    []byte // what is left of the entry
	data int    // bytes held
	list int    // pieces
	w    *request
	err  string
}

// fail notes the first thing that is wrong.
func (p *parse) fail(format string, args ...any) {
	if p.err == "" {
		p.err = fmt.Sprintf(format, args...)
	}
}

// loose reports whether it does not matter what is in what is reserved.
func (q *qp) loose() bool { return q.f.k.cfg.MLX5.Loose }

// next is the next n bytes; there may be fewer, then they are followed by zeros.
func (p *parse) next(n int, what string) []byte {
	if len(p.b) < n {
		p.fail("it ends before its %s", what)
		p.b = nil
		return make([]byte, n)
	}
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}

// zero checks bytes that are reserved.
func (p *parse) zero(b []byte, what string) {
	if p.s.q.loose() {
		return
	}
	for _, v := range b {
		if v != 0 {
			p.fail("%s in what is reserved of its %s", hex.EncodeToString(b), what)
			return
		}
	}
}
