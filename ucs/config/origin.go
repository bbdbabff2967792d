package config

import "strconv"

// OriginKind says what kind of place a value came from.
type OriginKind uint8

// Kinds of places, weakest first.
const (
	FromDefault OriginKind = iota
	FromFile
	FromEnv
	FromCall
)

// Origin is the place a value came from.
type Origin struct {
	Kind     OriginKind
	Path     string // of the file, for FromFile
	Line     int    // in the file, counted from 1
	Variable string // name as written, for FromFile and FromEnv
}

// String names the place for people: "default", "ucx.conf:12 (UCX_TLS)",
// "environment (APP_UCX_TLS)" or "call".
func (o Origin) String() string {
	variable := ""
	if o.Variable != "" {
		variable = " (" + o.Variable + ")"
	}
	switch o.Kind {
	case FromFile:
		return o.Path + ":" + strconv.Itoa(o.Line) + variable
	case FromEnv:
		return "environment" + variable
	case FromCall:
		return "call"
	}
	return "default"
}
