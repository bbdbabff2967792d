//go:build linux

package provider

// What a provider embeds that has no use for a hook. Each is for one.

// NoData is for objects that the two halves of the driver say nothing about.
type NoData struct{}

func (NoData) Data() (in, out []byte) { return nil, nil }

// NoDetach is for objects that hold nothing here.
type NoDetach struct{}

func (NoDetach) Detach() {}

// NoAttach is for a device of which nothing is mapped as a whole.
type NoAttach struct{}

func (NoAttach) Attach() error { return nil }

// LacksNothing is for devices that have every feature.
type LacksNothing struct{}

func (LacksNothing) Lacks(Feature) string { return "" }

// NoEvents is for completion queues that do not number their events.
type NoEvents struct{}

func (NoEvents) EventTaken() {}

// OneRoom is for queue pairs whose entries do not wrap around the end of the queue.
type OneRoom struct{}

func (OneRoom) More() (from, to int) { return 0, 0 }
