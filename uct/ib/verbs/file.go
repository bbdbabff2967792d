//go:build linux

package verbs

import "github.com/ucx-go/ucx/internal/ib/uverbs"

// File is an open uverbs device, /dev/infiniband/uverbsN, as NewContext takes it: that of
// Device.Open, or its substitute in tests (package verbstest). Other packages can only wrap
// one.
type File = uverbs.File

// Error is a failed call: the device, the call, the errno and possibly a remedy. errors.As
// finds it, errors.Is its Errno and the matching ucs.Status.
type Error = uverbs.Error
