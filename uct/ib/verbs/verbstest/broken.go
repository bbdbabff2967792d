//go:build linux

package verbstest

import "fmt"

// maxBroken is how many broken rules are kept.
const maxBroken = 64

// broke notes that a rule was broken. Lock held.
func (k *Kernel) broke(format string, args ...any) {
	text := k.cfg.Name + ": " + fmt.Sprintf(format, args...)
	if len(k.broken) < maxBroken {
		k.broken = append(k.broken, text)
	}
	k.net.say(text)
}

// broke is Kernel.broke of who has the device open: but what a program leaves behind when
// it ends, with doorbells whose queues are gone, is no fault of its own.
func (f *file) broke(format string, args ...any) {
	if f.space == nil || !f.space.Gone() {
		f.k.broke(format, args...)
	}
}

// say logs something. Lock held.
func (n *Fabric) say(text string) {
	if n.log != nil {
		n.log(text)
	}
}
