// Package netlink reads what the kernel tells by rtnetlink(7): messages, their
// attributes, and the routes of this network namespace.
package netlink
