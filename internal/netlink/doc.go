// Package netlink reads rtnetlink(7) messages of the kernel, their attributes, and the routes of
// this network namespace.
package netlink
