//go:build linux

package provider

// Types that a provider embeds in place of methods that it does not need, one type for each method.

// NoData implements Data for objects whose creation needs no driver-specific data.
type NoData struct{}

func (NoData) Data() (in, out []byte) { return nil, nil }

// NoDetach implements Detach for objects that hold no resources in this process.
type NoDetach struct{}

func (NoDetach) Detach() {}

// NoAttach implements Attach for devices that have no mappings for the whole device.
type NoAttach struct{}

func (NoAttach) Attach() error { return nil }

// LacksNothing implements Lacks for devices that have every feature.
type LacksNothing struct{}

func (LacksNothing) Lacks(Feature) string { return "" }

// NoEvents implements EventTaken for completion queues that do not number their events.
type NoEvents struct{}

func (NoEvents) EventTaken() {}

// NoWrap implements More for queue pairs whose entries do not wrap around the end of the queue.
type NoWrap struct{}

func (NoWrap) More() (from, to int) { return 0, 0 }
