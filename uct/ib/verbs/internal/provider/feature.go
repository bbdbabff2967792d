//go:build linux

package provider

// Feature is a capability that not every device or provider has.
type Feature int

// Features, for Context.Lacks.
const (
	FeatureUC        Feature = iota // queue pairs of type UC
	FeatureUD                       // queue pairs of type UD, and address handles
	FeatureSRQ                      // shared receive queues
	FeatureEvents                   // arming completion queues
	FeatureResizeCQ                 // resizing completion queues
	FeatureResizeSRQ                // resizing shared receive queues
	FeatureAtomics                  // operations that compare and swap, or fetch and add
	FeatureMW                       // binding and invalidating memory windows
	Features                        // number of features
)

// String returns the name of the feature, for errors.
func (f Feature) String() string {
	return Name(int(f), "unreliable connections", "datagrams", "shared receive queues", "completion events",
		"resizing completion queues", "resizing shared receive queues", "atomic operations", "memory windows")
}
