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

// say logs something. Lock held.
func (n *Fabric) say(text string) {
	if n.log != nil {
		n.log(text)
	}
}
