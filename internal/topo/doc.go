// Package topo describes the machine and the containers on it: whether two processes run on one
// machine, and whether they share a namespace. Its values are the numbers that C UCX publishes in
// addresses, so that both libraries recognize local peers.
package topo
