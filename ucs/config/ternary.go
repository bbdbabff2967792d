package config

import "strings"

// Ternary is a choice of yes, no, try (yes where possible) or auto (the library
// decides). Names follow ucs_ternary_auto_value_t.
type Ternary uint8

// Values of a Ternary.
const (
	No Ternary = iota
	Yes
	Try
	Auto
)

// ParseConfig implements Value.
func (t *Ternary) ParseConfig(s string) error {
	switch strings.ToLower(s) {
	case "try", "maybe":
		*t = Try
		return nil
	case "auto":
		*t = Auto
		return nil
	}
	b, ok := parseBool(s)
	if !ok {
		return errSyntax
	}
	*t = No
	if b {
		*t = Yes
	}
	return nil
}

// String implements Value.
func (t Ternary) String() string {
	switch t {
	case No:
		return "n"
	case Yes:
		return "y"
	case Try:
		return "try"
	}
	return "auto"
}

// ConfigSyntax implements Syntaxer.
func (Ternary) ConfigSyntax() string { return "<yes|no|try|auto>" }

// OnOffAuto is a Ternary that C UCX spells on, off and auto; try means auto.
type OnOffAuto uint8

// Values of an OnOffAuto.
const (
	Off OnOffAuto = iota
	On
	OnOffAutomatic
)

// ParseConfig implements Value.
func (o *OnOffAuto) ParseConfig(s string) error {
	var t Ternary
	if err := t.ParseConfig(s); err != nil {
		return err
	}
	switch t {
	case No:
		*o = Off
	case Yes:
		*o = On
	default:
		*o = OnOffAutomatic
	}
	return nil
}

// String implements Value.
func (o OnOffAuto) String() string {
	switch o {
	case Off:
		return "off"
	case On:
		return "on"
	}
	return "auto"
}

// ConfigSyntax implements Syntaxer.
func (OnOffAuto) ConfigSyntax() string { return "<on|off|auto>" }
