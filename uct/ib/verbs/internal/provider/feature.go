//go:build linux

package provider

// Feature is something that not every device or provider has.
type Feature int

// Features.
const (
	FeatureUC        Feature = iota // queue pairs of type UC
	FeatureUD                       // queue pairs of type UD, and address handles
	FeatureSRQ                      // shared receive queues
	FeatureEvents                   // arming completion queues
	FeatureResizeCQ                 // resizing completion queues
	FeatureResizeSRQ                // resizing shared receive queues
	FeatureAtomics                  // operations that compare and swap, or fetch and add
	FeatureMW                       // memory windows: binding and invalidating
	Features                        // how many there are
)

// String names the feature as errors do.
func (f Feature) String() string {
	return Name(int(f), "unreliable connections", "datagrams", "shared receive queues", "completion events",
		"resizing completion queues", "resizing shared receive queues", "atomic operations", "memory windows")
}
