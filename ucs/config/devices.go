package config

import "strings"

// MatchDevice reports whether a list of devices, such as UCX_NET_DEVICES, selects the device with a
// name. A name of a device and its port, such as "mlx5_0:1", is also selected by the name of the
// device alone.
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

// MissingDevices returns the items of an allow list that select none of the available devices.
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
