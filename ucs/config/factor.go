package config

import (
	"math"
	"strconv"
	"strings"
)

// Factor is a positive number or "auto" (UCS_CONFIG_TYPE_POS_DOUBLE).
type Factor float64

// FactorAuto is the value "auto", which leaves the choice to the library (UCS_CONFIG_DBL_AUTO).
const FactorAuto Factor = -2

// ParseConfig implements Value.
func (f *Factor) ParseConfig(s string) error {
	s = strings.TrimSpace(s)
	if strings.EqualFold(s, "auto") {
		*f = FactorAuto
		return nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return numError(err)
	}
	if !(n > 0) || math.IsInf(n, 0) {
		return errRange
	}
	*f = Factor(n)
	return nil
}

// String implements Value.
func (f Factor) String() string {
	if f == FactorAuto {
		return "auto"
	}
	return strconv.FormatFloat(float64(f), 'f', 3, 64)
}

// ConfigSyntax implements Syntaxer.
func (Factor) ConfigSyntax() string { return `positive floating point number or "auto"` }

// IsAuto reports whether the value is "auto", which leaves the choice to the library.
func (f Factor) IsAuto() bool { return f == FactorAuto }

// Float returns f, or the parameter auto if f is FactorAuto.
func (f Factor) Float(auto float64) float64 {
	if f == FactorAuto {
		return auto
	}
	return float64(f)
}
