package proto

// LaneCache caches the last selection of lanes. The addresses of a worker's peers mostly differ
// only in their device and interface addresses, and these affect the selection only through
// LaneInput.Reachable. If nothing else differs and all results of Reachable are the same, Select
// returns the cached selection. One goroutine at a time may use a LaneCache. The zero value is
// empty.
type LaneCache struct {
	filled  bool
	key     laneKey
	entries []laneEntry
	asked   []reachResult

	config LaneConfig
	digest uint64
}

// laneKey holds everything that a selection depends on except the entries of the address.
type laneKey struct {
	features       Features
	errMode        ErrMode
	keepalive, cm  bool
	messages       [2]bool
	local          *LocalIface // first element of LaneInput.Local
	numLocal       int
	numEndpoints   int
	ppn            int
	scheme         RndvScheme
	limits         LaneLimits
	asks           bool // LaneInput.Reachable is not nil
	addressVersion AddressVersion
	announced      bool // the address announces a release
}

// laneEntry is an entry of an address without its device and interface addresses.
type laneEntry struct {
	device         int
	md, sys, paths uint8
	transport      TransportID
	attr           IfaceAttr
}

// reachResult is a result of LaneInput.Reachable for a resource and an entry of the address. The
// field why is the text of the error, "" if the entry is reachable.
type reachResult struct {
	local, remote int
	why           string
}

// Select returns the result of SelectLanes, and the digest of its trace. The configuration
// is shared with later calls and must not be changed; in.Local must not change between
// calls.
func (c *LaneCache) Select(in *LaneInput) (LaneConfig, uint64, error) {
	if c.holds(in) {
		return c.config, c.digest, nil
	}
	c.filled, c.asked = false, c.asked[:0]
	noting := *in
	if in.Reachable != nil {
		noting.Reachable = func(local int, d *AddressDevice, f *AddressIface) error {
			err := in.Reachable(local, d, f)
			c.asked = append(c.asked, reachResult{local, in.Remote.index(f), reason(err)})
			return err
		}
	}
	config, trace, err := SelectLanes(&noting)
	if err != nil {
		return LaneConfig{}, 0, err
	}
	c.config, c.digest = config, trace.Digest()
	if in.Remote.NumIfaces() <= maxCached {
		c.keep(in)
	} else {
		c.asked = nil
	}
	return config, c.digest, nil
}

// maxCached is the largest number of entries of an address whose selection is cached. Peers can
// send longer addresses.
const maxCached = 32

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func keyOf(in *LaneInput) laneKey {
	k := laneKey{
		features: in.Features, errMode: in.ErrMode, keepalive: in.Keepalive, cm: in.CM,
		messages: [2]bool{in.Messages, in.MessagesOnly},
		numLocal: len(in.Local), numEndpoints: in.NumEndpoints, ppn: in.PPN, scheme: in.RndvScheme, limits: in.Limits,
		asks: in.Reachable != nil, addressVersion: in.Remote.Version, announced: in.Remote.Release > 0,
	}
	if len(in.Local) > 0 {
		k.local = &in.Local[0]
	}
	return k
}

func entryOf(device int, d *AddressDevice, f *AddressIface) laneEntry {
	return laneEntry{device, d.MD, d.SysDev, d.NumPaths, f.Transport, f.Attr}
}

// keep stores the input that the selection depends on, and marks the cache as filled.
func (c *LaneCache) keep(in *LaneInput) {
	c.filled, c.key, c.entries = true, keyOf(in), c.entries[:0]
	for k := range in.Remote.Devices {
		d := &in.Remote.Devices[k]
		for i := range d.Ifaces {
			c.entries = append(c.entries, entryOf(k, d, &d.Ifaces[i]))
		}
	}
}

// holds reports whether the cached selection is also the selection for the given input.
func (c *LaneCache) holds(in *LaneInput) bool {
	if !c.filled || c.key != keyOf(in) || in.Remote.NumIfaces() != len(c.entries) {
		return false
	}
	n := 0
	for k := range in.Remote.Devices {
		d := &in.Remote.Devices[k]
		for i := range d.Ifaces {
			if c.entries[n] != entryOf(k, d, &d.Ifaces[i]) {
				return false
			}
			n++
		}
	}
	for k := range c.asked {
		a := &c.asked[k]
		d, f := in.Remote.Entry(a.remote)
		if reason(in.Reachable(a.local, d, f)) != a.why {
			return false
		}
	}
	return true
}
