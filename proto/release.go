package proto

// referenceRelease is the minor release of C UCX whose wire format this package implements. An
// announced release is known only modulo 16, and is taken to be the one nearest to
// referenceRelease.
const referenceRelease = 22

// releaseModulo is the number of releases that an address can tell apart: it has four bits for the
// release.
const releaseModulo = 16

// lastMDCapsRelease is the last minor release that packs capabilities into the high bits of the MD
// index in address v1.
const lastMDCapsRelease = 18

// releaseFromWire returns the release that a peer announces as n: of the releases congruent to n
// modulo 16, the one nearest to referenceRelease (ucp_address_unpack_release_version in
// src/ucp/wireup/address.c).
func releaseFromWire(n uint8) int {
	const base = referenceRelease / releaseModulo * releaseModulo
	delta := referenceRelease%releaseModulo - int(n)
	switch {
	case delta >= releaseModulo/2:
		return base + releaseModulo + int(n)
	case delta <= -releaseModulo/2:
		return base - releaseModulo + int(n)
	}
	return base + int(n)
}
