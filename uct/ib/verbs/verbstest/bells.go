//go:build linux

package verbstest

// lookForBells finds the doorbells that have rung without a call. Lock held.
func (k *Kernel) lookForBells() {
	if !k.of.polls() {
		return
	}
	for _, f := range k.files {
		f.drv.look()
	}
}
