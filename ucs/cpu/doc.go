// Package cpu has the instructions that Go has no name for.
package cpu
