// Package host contains the common code of the shared-memory transports that concerns the
// machine and its processes: the device address, which identifies the machine and the IPC
// namespace of an interface; the wire format of namespaces; the identity of a process, which
// stays unique when its process id is reused; the watcher that reports exits of processes; and
// the setting UCX_SHM_ALLOW.
package host
