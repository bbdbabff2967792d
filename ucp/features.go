package ucp

import (
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/ucs"
)

// Features select the families of operations that a context is used for (enum ucp_feature).
// An operation of a family that was not requested fails with ucs.ErrInvalidParam.
// FeatureExportedMemh needs a memory domain that exports memory (uct.Exporter). No
// transport of this library has one, so NewContext fails with it.
type Features uint64

// Features, with C's bit numbers.
const (
	FeatureTag          Features = 1 << 0
	FeatureRMA          Features = 1 << 1
	FeatureAMO32        Features = 1 << 2
	FeatureAMO64        Features = 1 << 3
	FeatureWakeup       Features = 1 << 4
	FeatureStream       Features = 1 << 5
	FeatureAM           Features = 1 << 6
	FeatureExportedMemh Features = 1 << 7

	featuresKnown = FeatureExportedMemh<<1 - 1
)

var featureNames = [...]string{"tag", "rma", "amo32", "amo64", "wakeup", "stream", "am", "exported_memh"}

// check refuses features that are unknown.
func (f Features) check() error {
	if unknown := f &^ featuresKnown; unknown != 0 {
		return fmt.Errorf("ucp: unknown features %#x: %w", uint64(unknown), ucs.ErrInvalidParam)
	}
	return nil
}

// String lists the features by name.
func (f Features) String() string {
	var names []string
	for i, n := range featureNames {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "|")
}

// Tag is the 64-bit label that receives match messages by.
type Tag uint64

// FullMask makes a receive match one tag exactly.
const FullMask Tag = ^Tag(0)

// TagRecvInfo describes the message that a receive got.
type TagRecvInfo struct {
	SenderTag Tag // the sender's tag, all 64 bits
	Length    int // length of the message in bytes
}
