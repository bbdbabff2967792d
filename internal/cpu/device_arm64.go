package cpu

// ToDevice comes between stores to memory that a device reads and the store that tells
// it of them.
func ToDevice()

// FromDevice comes between the load that finds something written by a device, which is
// atomic, and the loads of what it has written before.
func FromDevice()
