package ucp

import (
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// rndvThresh is a rendezvous threshold, one for peers on this host and one for
// others: "64k", "intra:64k,inter:auto" or "auto,intra:64k".
type rndvThresh struct {
	Intra, Inter config.Bytes
}

var reachKeys = []string{"intra", "inter"}

// ParseConfig implements config.Value.
func (t *rndvThresh) ParseConfig(s string) error {
	t.Intra, t.Inter = config.BytesAuto, config.BytesAuto
	return config.ParseKeyed(s, reachKeys, func(key int, value string) error {
		return []*config.Bytes{&t.Intra, &t.Inter}[key].ParseConfig(value)
	})
}

// String implements config.Value.
func (t rndvThresh) String() string {
	return config.FormatKeyed(reachKeys, []string{t.Intra.String(), t.Inter.String()})
}

// ConfigSyntax describes the values for error messages and listings.
func (t rndvThresh) ConfigSyntax() string {
	return config.KeyedSyntax(reachKeys, t.Intra.ConfigSyntax())
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
// counterpart here (pipelines) are refused.
func (v *rndvScheme) ParseConfig(s string) error {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "auto":
		*v = rndvSchemeAuto
	case "get_ppln", "put_ppln":
		return fmt.Errorf("pipelines through intermediate buffers are not supported: %w", ucs.ErrUnsupported)
	case "put_zcopy":
		*v = rndvSchemePut
	case "get_zcopy":
		*v = rndvSchemeGet
	case "rkey_ptr":
		*v = rndvSchemePtr
	case "am":
		*v = rndvSchemeAM
	default:
		return fmt.Errorf("%q is not a rendezvous scheme: %w", s, ucs.ErrInvalidParam)
	}
	return nil
}

// String implements config.Value.
func (v rndvScheme) String() string { return rndvSchemeNames[v] }

// ConfigSyntax describes the values for error messages and listings.
func (rndvScheme) ConfigSyntax() string { return "auto, get_zcopy, put_zcopy, rkey_ptr, am" }
