//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/uverbs"

// Process is what opens devices and may die with all of them. The zero value has none
// open. It is for one goroutine at a time.
type Process struct{ files []*file }

// Open is Kernel.Open by the process.
func (p *Process) Open(k *Kernel) uverbs.File {
	f := k.open()
	p.files = append(p.files, f)
	return uverbs.Traced(f)
}

// Kill ends the process: its queue pairs and other objects are gone without notice and
// without completions. Later calls get EIO.
func (p *Process) Kill() {
	for _, f := range p.files {
		f.kill()
	}
	p.files = nil
}

func (f *file) kill() {
	f.k.net.mu.Lock()
	defer f.k.net.mu.Unlock()
	if !f.closed {
		f.dead = true
		f.muffle()
		f.destroyAll()
	}
}
