//go:build linux

package ud

// die is told that the device does nothing for the interface any more. Progress does
// what comes of it.
func (i *iface) die(err error) {
	if i.dead == nil {
		i.dead = err
		i.dying = true
		i.Fail(err)
	}
}

// collapse ends all connections of an interface that is dead.
func (i *iface) collapse() {
	i.dying = false
	if i.qp != nil {
		i.qp.Close() // of a device that is gone nothing is left
		i.qp = nil
	}
	i.sq.drop()
	i.inside = true
	i.flow.Fail(i.dead)
	i.inside = false
	i.retired.release(i)
}
