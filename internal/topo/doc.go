// Package topo answers questions about the machine and the containers on it:
// are two processes on one machine, do they share a namespace. The answers have
// the numbers C UCX publishes in addresses, so that the two libraries recognise
// each other as neighbours.
package topo
