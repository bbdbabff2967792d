//go:build linux

package ud

// die marks the interface as dead: the device does nothing for it any more. The next round of
// progress fails its connections.
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
		i.qp.Close() // an error means that the device is gone, and the queue pair with it
		i.qp = nil
	}
	i.sq.drop()
	i.inside = true
	i.flow.Fail(i.dead)
	i.inside = false
	i.retired.release(i)
}
