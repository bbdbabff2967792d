package config

import "strconv"

// OriginKind is the kind of source that the value of a setting comes from.
type OriginKind uint8

// Kinds of sources of values. Later ones override earlier ones.
const (
	FromDefault OriginKind = iota
	FromFile
	FromEnv
	FromCall
)

// Origin is the source that the value of a setting comes from.
type Origin struct {
	Kind     OriginKind
	Path     string // path of the file, for FromFile
	Line     int    // line in the file, counted from 1
	Variable string // name as written, for FromFile and FromEnv
}

// String describes the source for messages: "default", "ucx.conf:12 (UCX_TLS)", "environment
// (APP_UCX_TLS)" or "call".
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
