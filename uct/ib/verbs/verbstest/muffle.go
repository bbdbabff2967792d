//go:build linux

package verbstest

// muffle decides whether the bell is heard at all: it is not while work is done in
// steps, which find by themselves what there is to do, and nothing is wrong. Lock held.
func (f *file) muffle() {
	f.quiet.Store(f.k.net.sched.work == InStep && !f.closed && !f.dead && !f.k.removed && !f.k.faults.has("write"))
}

// muffle is for all who have the device open.
func (k *Kernel) muffle() {
	for _, f := range k.files {
		f.muffle()
	}
}
