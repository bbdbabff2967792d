// Package host is what the shared-memory transports share about the machine
// they run on and the processes on it: the device address that says which
// machine and IPC namespace an interface is in, the form in which namespaces
// travel, and the identity of a process, which outlives the reuse of its id.
package host
