package ucp

import (
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// rndvThresh is a rendezvous threshold, one for peers on this host and one for
// others: "64k" or "intra:64k,inter:auto".
type rndvThresh struct {
	Intra, Inter config.Bytes
}

// ParseConfig implements config.Value.
func (t *rndvThresh) ParseConfig(s string) error {
	if !strings.Contains(s, ":") {
		var b config.Bytes
		if err := b.ParseConfig(s); err != nil {
			return err
		}
		t.Intra, t.Inter = b, b
		return nil
	}
	t.Intra, t.Inter = config.BytesAuto, config.BytesAuto
	for _, part := range strings.Split(s, ",") {
		where, value, _ := strings.Cut(strings.TrimSpace(part), ":")
		var b config.Bytes
		if err := b.ParseConfig(value); err != nil {
			return err
		}
		switch where {
		case "intra":
			t.Intra = b
		case "inter":
			t.Inter = b
		default:
			return fmt.Errorf("%q is neither intra nor inter: %w", where, ucs.ErrInvalidParam)
		}
	}
	return nil
}

// String implements config.Value.
func (t rndvThresh) String() string {
	if t.Intra == t.Inter {
		return t.Intra.String()
	}
	return "intra:" + t.Intra.String() + ",inter:" + t.Inter.String()
}

// ConfigSyntax describes the values for error messages and listings.
func (rndvThresh) ConfigSyntax() string {
	return "memory units: <number>[b|kb|mb|gb], \"inf\", \"auto\", or intra:SIZE,inter:SIZE"
}

// rndvScheme says how rendezvous data travels.
type rndvScheme uint8

const (
	rndvSchemeAuto rndvScheme = iota
	rndvSchemePut
	rndvSchemeAM
	rndvSchemeGet
	rndvSchemePtr
)

var rndvSchemeNames = [...]string{"auto", "put_zcopy", "am", "get_zcopy", "rkey_ptr"}

// ParseConfig implements config.Value. The schemes of C UCX that have no
// counterpart here (pipelines) are taken as auto, which is what C does where a
// scheme is not possible.
func (v *rndvScheme) ParseConfig(s string) error {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "auto", "get_ppln", "put_ppln":
		*v = rndvSchemeAuto
	case "put_zcopy":
		*v = rndvSchemePut
	case "get_zcopy":
		*v = rndvSchemeGet
	case "rkey_ptr":
		*v = rndvSchemePtr
	case "am":
		*v = rndvSchemeAM
	default:
		return fmt.Errorf("%q is no rendezvous scheme: %w", s, ucs.ErrInvalidParam)
	}
	return nil
}

// String implements config.Value.
func (v rndvScheme) String() string { return rndvSchemeNames[v] }

// ConfigSyntax describes the values for error messages and listings.
func (rndvScheme) ConfigSyntax() string { return "auto, get_zcopy, put_zcopy, rkey_ptr, am" }
