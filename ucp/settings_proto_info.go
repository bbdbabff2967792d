package ucp

import (
	"fmt"
	"path"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
)

// protoInfo is the value of UCX_PROTO_INFO: which decision tables are printed to the log.
type protoInfo struct {
	mode    protoInfoMode
	pattern string // in small letters, of protoInfoPattern
}

type protoInfoMode uint8

const (
	protoInfoOff     protoInfoMode = iota
	protoInfoAll                   // each table when it is made
	protoInfoAuto                  // the same where the log shows level debug
	protoInfoUsed                  // those that were used, when the worker is closed
	protoInfoPattern               // those whose title fits a pattern, when they are made
)

// ParseConfig implements config.Value.
func (v *protoInfo) ParseConfig(s string) error {
	switch lower := strings.ToLower(strings.TrimSpace(s)); lower {
	case "y", "yes", "on", "1":
		*v = protoInfo{mode: protoInfoAll}
	case "n", "no", "off", "0":
		*v = protoInfo{mode: protoInfoOff}
	case "auto":
		*v = protoInfo{mode: protoInfoAuto}
	case "used":
		*v = protoInfo{mode: protoInfoUsed}
	case "":
		return fmt.Errorf("the value is empty: %w", ucs.ErrInvalidParam)
	default:
		if _, err := path.Match(lower, ""); err != nil {
			return fmt.Errorf("pattern: %w: %w", err, ucs.ErrInvalidParam)
		}
		*v = protoInfo{mode: protoInfoPattern, pattern: lower}
	}
	return nil
}

// String implements config.Value.
func (v protoInfo) String() string {
	switch v.mode {
	case protoInfoAll:
		return "y"
	case protoInfoAuto:
		return "auto"
	case protoInfoUsed:
		return "used"
	case protoInfoPattern:
		return v.pattern
	}
	return "n"
}

// ConfigSyntax describes the values for error messages and listings.
func (protoInfo) ConfigSyntax() string {
	return `y, n, "auto", "used", or a pattern with *, ? and [a-z]`
}

// prints reports whether tables are printed when they are made, if their titles fit.
func (v protoInfo) prints(to *log.Logger) bool {
	switch v.mode {
	case protoInfoAll, protoInfoPattern:
		return true
	case protoInfoAuto:
		return to.Enabled(log.LevelDebug)
	}
	return false
}

// fits reports whether a table of that title is among those that are printed.
func (v protoInfo) fits(title string) bool {
	return v.mode != protoInfoPattern || globAny(v.pattern, strings.ToLower(title))
}

var _ config.Syntaxer = protoInfo{}
