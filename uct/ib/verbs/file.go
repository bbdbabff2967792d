//go:build linux

package verbs

import "github.com/ucx-go/ucx/uct/ib/internal/uverbs"

// File is an open uverbs device, /dev/infiniband/uverbsN, the argument of NewContext. Device.Open
// opens one; tests may use a substitute (package verbstest). Packages outside uct/ib can wrap a
// File, but not implement one, because its methods use internal types.
type File = uverbs.File

// Error describes a failed call to the kernel: the device, the call, the errno and possibly a hint
// at a remedy. errors.As finds an Error; errors.Is matches its Errno and the ucs.Status for it.
type Error = uverbs.Error
