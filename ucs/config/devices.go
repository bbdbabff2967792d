package config

import "strings"

// MatchDevice reports whether a list of devices (UCX_NET_DEVICES and its like)
// selects a device. A name like "mlx5_0:1", a device and its port, is selected
// by the device's name too.
func (l List) MatchDevice(name string) bool {
	base, _, hasPort := strings.Cut(name, ":")
	switch l.Mode {
	case ListAll:
		return true
	case ListNegate:
		return !l.Mentions(name) && !(hasPort && l.Mentions(base))
	}
	return l.Mentions(name) || hasPort && l.Mentions(base)
}

// MissingDevices returns the items of an allow list that select none of the
// devices at hand.
func (l List) MissingDevices(available []string) []string {
	if l.Mode != ListAllow {
		return nil
	}
	var missing []string
	for _, item := range l.Items {
		one := List{Items: []string{item}}
		found := false
		for _, name := range available {
			found = found || one.MatchDevice(name)
		}
		if !found {
			missing = append(missing, item)
		}
	}
	return missing
}
