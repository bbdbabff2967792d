// Package cpu provides processor instructions that Go does not expose, with substitutes or no-ops
// on processors that lack them, and a cache-friendly copy.
package cpu
