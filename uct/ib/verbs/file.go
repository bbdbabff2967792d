//go:build linux

package verbs

import "github.com/ucx-go/ucx/internal/ib/uverbs"

// File is an open uverbs device, /dev/infiniband/uverbsN, as NewContext takes it: that
// of Device.Open, or what stands in for it in tests (package verbstest). Others can
// only wrap one.
type File = uverbs.File

// Error is a call that failed: the device, the call, the errno and maybe what may
// help. errors.As finds it, errors.Is its Errno and the ucs.Status that stands for
// it.
type Error = uverbs.Error
