package cpu

// ToDevice is the barrier between stores to memory that a device reads and the store that notifies
// the device.
func ToDevice()

// FromDevice is the barrier between the atomic load that finds something written by a device and
// the loads of data that the device has written before.
func FromDevice()
