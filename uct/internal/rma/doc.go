// Package rma holds what transports need that serve one-sided access in
// software: the table of memory that peers may touch, and atomic operations on
// words inside byte slices.
package rma
