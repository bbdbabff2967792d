// Package cpu has instructions that Go has no name for, and does without where the
// processor does not have them; and copying as caches like it.
package cpu
