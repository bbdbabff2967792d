package config

import (
	"path"
	"strings"

	"github.com/ucx-go/ucx/internal/topo"
)

// host evaluates the filter lines with which a section of a settings file selects machines: "CPU
// vendor", "CPU model" and "Product name", each with a pattern that ignores case
// (ucs_config_parse_check_filter in src/ucs/config/parser.c). Sections with a filter for the CPU
// model are skipped: they tune C UCX's copy routines and bandwidth estimates to one processor, and
// this library does not determine the CPU model by C UCX's names.
type host struct {
	root string // root of the file system, "/" except in tests
}

const (
	filterVendor  = "CPU vendor"
	filterModel   = "CPU model"
	filterProduct = "Product name"
)

// isFilter reports whether a name in a settings file is that of a filter and not of a setting.
func (h *host) isFilter(name string) bool {
	return name == filterVendor || name == filterModel || name == filterProduct
}

// matches reports whether this machine matches the pattern of a filter.
func (h *host) matches(filter, pattern string) bool {
	is := ""
	switch filter {
	case filterModel:
		return false
	case filterVendor:
		is, _ = topo.CPU(h.root)
	case filterProduct:
		is = topo.Product(h.root)
	}
	// In the pattern, a slash is an ordinary character; path.Match treats it as a separator.
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", "\x00") }
	ok, _ := path.Match(fold(pattern), fold(is))
	return ok
}
