package config

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Bytes is an amount of memory: a number with an optional unit b, k, m, g or t
// in powers of 1024, optionally followed by b ("8k", "8kb", "1M"), "inf" or one of
// its older spellings "-1" and "18446744073709551615", or "auto"
// (UCS_CONFIG_TYPE_MEMUNITS).
type Bytes uint64

// The values "inf" and "auto" of Bytes, with the numbers of C UCX (UCS_MEMUNITS_INF,
// UCS_MEMUNITS_AUTO).
const (
	BytesInf  Bytes = math.MaxUint64
	BytesAuto Bytes = math.MaxUint64 - 1
)

const bytesUnits = "bkmgt"

// ParseConfig implements Value.
func (b *Bytes) ParseConfig(s string) error {
	n, done := parseSpecial(s)
	if done {
		*b = Bytes(n)
		return nil
	}
	s = strings.TrimSpace(s)
	num := strings.TrimRight(s, "bkmgtBKMGT")
	unit := strings.ToLower(s[len(num):])
	shift := 0
	switch {
	case unit == "":
	case len(unit) == 1 || len(unit) == 2 && unit[1] == 'b':
		shift = 10 * strings.IndexByte(bytesUnits, unit[0])
	default:
		return errSyntax
	}
	n, err := strconv.ParseUint(num, 10, 64)
	if err != nil {
		return numError(err)
	}
	if bits.Len64(n)+shift > 63 {
		return errRange
	}
	*b = Bytes(n << shift)
	return nil
}

// String prints b with the largest unit that divides it, as C UCX does.
func (b Bytes) String() string {
	switch b {
	case BytesInf:
		return "inf"
	case BytesAuto:
		return "auto"
	}
	unit := 0
	for b >= 1024 && b%1024 == 0 && unit+1 < len(bytesUnits) {
		b /= 1024
		unit++
	}
	s := strconv.FormatUint(uint64(b), 10)
	if unit > 0 {
		s += strings.ToUpper(bytesUnits[unit : unit+1])
	}
	return s
}

// ConfigSyntax implements Syntaxer.
func (Bytes) ConfigSyntax() string {
	return `memory units: <number>[b|kb|mb|gb], "inf", or "auto"`
}

// IsAuto reports whether the value is "auto", which leaves the choice to the library.
func (b Bytes) IsAuto() bool { return b == BytesAuto }

// Int returns b as an int, at most the largest int, which also stands for an infinite amount. For
// BytesAuto it returns the parameter auto.
func (b Bytes) Int(auto int) int {
	switch {
	case b == BytesAuto:
		return auto
	case b > math.MaxInt:
		return math.MaxInt
	}
	return int(b)
}

// maxUint64 is the text that C UCX prints for an infinite size or count with %lu.
const maxUint64 = "18446744073709551615"

// parseSpecial reads the values of Bytes and Count that mean infinite or auto. ok is false for
// other values.
func parseSpecial(s string) (n uint64, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "inf", "-1", maxUint64:
		return uint64(BytesInf), true
	case "auto":
		return uint64(BytesAuto), true
	}
	return 0, false
}

// Count is a number, "inf" or one of its older spellings "-1" and
// "18446744073709551615", or "auto" (UCS_CONFIG_TYPE_ULUNITS).
type Count uint64

// The values "inf" and "auto" of Count, with the numbers of C UCX (UCS_ULUNITS_INF,
// UCS_ULUNITS_AUTO).
const (
	CountInf  Count = math.MaxUint64
	CountAuto Count = math.MaxUint64 - 1
)

// ParseConfig implements Value.
func (c *Count) ParseConfig(s string) error {
	n, done := parseSpecial(s)
	if done {
		*c = Count(n)
		return nil
	}
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 63)
	if err != nil {
		return numError(err)
	}
	*c = Count(n)
	return nil
}

// String implements Value.
func (c Count) String() string {
	switch c {
	case CountInf:
		return "inf"
	case CountAuto:
		return "auto"
	}
	return strconv.FormatUint(uint64(c), 10)
}

// ConfigSyntax implements Syntaxer.
func (Count) ConfigSyntax() string {
	return `unsigned long: <number>, "inf", or "auto"`
}

// IsAuto reports whether the value is "auto", which leaves the choice to the library.
func (c Count) IsAuto() bool { return c == CountAuto }

// Int returns c as an int, at most the largest int, which also stands for an infinite count. For
// CountAuto it returns the parameter auto.
func (c Count) Int(auto int) int { return Bytes(c).Int(auto) }

// Time is a span of time: a number with a unit m, s, ms, us or ns (seconds without one), "inf" or
// "auto" (UCS_CONFIG_TYPE_TIME_UNITS). A setting that allows neither "inf" nor "auto" has type
// time.Duration instead.
type Time time.Duration

// The values "inf" and "auto" of Time.
const (
	TimeInf  Time = math.MaxInt64
	TimeAuto Time = math.MinInt64
)

// ParseConfig implements Value.
func (t *Time) ParseConfig(s string) error {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "inf":
		*t = TimeInf
		return nil
	case "auto":
		*t = TimeAuto
		return nil
	}
	d, err := parseDuration(s)
	if err != nil {
		return err
	}
	*t = Time(d)
	return nil
}

// String implements Value.
func (t Time) String() string {
	switch t {
	case TimeInf:
		return "inf"
	case TimeAuto:
		return "auto"
	}
	return formatDuration(time.Duration(t))
}

// ConfigSyntax implements Syntaxer.
func (Time) ConfigSyntax() string {
	return `time value: <number>[m|s|ms|us|ns], "inf", or "auto"`
}

// IsAuto reports whether the value is "auto", which leaves the choice to the library.
func (t Time) IsAuto() bool { return t == TimeAuto }

// Duration returns t as a time.Duration. For TimeInf it returns the longest Duration, and for
// TimeAuto the parameter auto.
func (t Time) Duration(auto time.Duration) time.Duration {
	if t == TimeAuto {
		return auto
	}
	return time.Duration(t)
}

// parseDuration reads a number with an optional unit; the default unit is seconds. Negative times
// are out of range.
func parseDuration(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	num := strings.TrimRight(s, "munsMUNS")
	var unit time.Duration
	switch s[len(num):] {
	case "", "s":
		unit = time.Second
	case "m":
		unit = time.Minute
	case "ms":
		unit = time.Millisecond
	case "us":
		unit = time.Microsecond
	case "ns":
		unit = time.Nanosecond
	default:
		return 0, errSyntax
	}
	f, err := strconv.ParseFloat(num, 64)
	if err != nil {
		return 0, numError(err)
	}
	f = math.Round(f * float64(unit))
	if !(f >= 0 && f < math.MaxInt64) {
		return 0, errRange
	}
	return time.Duration(f), nil
}

// formatDuration prints microseconds with two decimals, as C UCX does, or with three if two would
// lose nanoseconds.
func formatDuration(d time.Duration) string {
	us := float64(d) / float64(time.Microsecond)
	prec := 2
	if d%(10*time.Nanosecond) != 0 {
		prec = 3
	}
	return strconv.FormatFloat(us, 'f', prec, 64) + "us"
}
