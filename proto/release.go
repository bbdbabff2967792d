package proto

// The minor release of C UCX whose messages this package speaks. It is the
// centre of the window in which announced releases are understood.
const referenceRelease = 22

// An address carries a release in four bits.
const releaseModulo = 16

// lastMDCapsRelease is the last minor release that packs capability bits above
// the MD index of address v1.
const lastMDCapsRelease = 18

// releaseFromWire finds the release a peer means: of those congruent to n, the
// one nearest to our own (ucp_address_unpack_release_version in
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
