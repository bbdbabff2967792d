package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Value is the type of a setting that parses itself from text, and prints itself in the form that
// ParseConfig reads. The error of ParseConfig only says what is wrong with s; the caller adds the
// name, the value and, from Syntaxer, the accepted syntax.
type Value interface {
	ParseConfig(s string) error
	String() string
}

// Syntaxer is a Value that describes the syntax that it accepts, for error messages and listings,
// for example "<y|n>".
type Syntaxer interface {
	ConfigSyntax() string
}

const (
	// maxValue bounds the length of a value, in bytes.
	maxValue = 64 << 10

	// maxItems bounds the number of items in a list.
	maxItems = 1024
)

var (
	valueType    = reflect.TypeFor[Value]()
	durationType = reflect.TypeFor[time.Duration]()
)

// supported reports whether a field of type t can be a setting.
func supported(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(valueType) || t == durationType {
		return true
	}
	if t.Kind() == reflect.Slice {
		return t.Elem().Kind() != reflect.Slice && supported(t.Elem())
	}
	switch t {
	case reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[uint](),
		reflect.TypeFor[float64](), reflect.TypeFor[string]():
		return true
	}
	return false
}

// parseInto parses the value s and stores it in v, which is addressable and of a supported type.
func parseInto(v reflect.Value, s string) error {
	if len(s) > maxValue {
		return fmt.Errorf("%d bytes long, the limit is %d", len(s), maxValue)
	}
	if val, ok := v.Addr().Interface().(Value); ok {
		return val.ParseConfig(s)
	}
	switch p := v.Addr().Interface().(type) {
	case *bool:
		b, ok := parseBool(s)
		if !ok {
			return errSyntax
		}
		*p = b
	case *int:
		if isInf(s) {
			*p = math.MaxInt
			return nil
		}
		n, err := strconv.ParseInt(strings.TrimSpace(s), 0, strconv.IntSize)
		if err != nil {
			return numError(err)
		}
		*p = int(n)
	case *uint:
		if isInf(s) || s == maxUint64 {
			*p = math.MaxUint
			return nil
		}
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, strconv.IntSize)
		if err != nil {
			return numError(err)
		}
		*p = uint(n)
	case *float64:
		if isInf(s) {
			*p = math.MaxFloat64
			return nil
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil {
			return numError(err)
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return errRange
		}
		*p = f
	case *string:
		*p = s
	case *time.Duration:
		d, err := parseDuration(s)
		if err != nil {
			return err
		}
		*p = d
	default:
		return parseSlice(v, s)
	}
	return nil
}

// parseSlice stores the comma-separated list s in v, a slice.
func parseSlice(v reflect.Value, s string) error {
	items, err := splitItems(s)
	if err != nil {
		return err
	}
	list := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if err := parseInto(list.Index(i), item); err != nil {
			return fmt.Errorf("item %s: %w", quote(item), err)
		}
	}
	v.Set(list)
	return nil
}

// format returns the value of the setting in v as C UCX prints it.
func format(v reflect.Value) string {
	switch p := v.Addr().Interface().(type) {
	case Value:
		return p.String()
	case *bool:
		if *p {
			return "y"
		}
		return "n"
	case *uint:
		if *p == math.MaxUint {
			return "inf"
		}
		return strconv.FormatUint(uint64(*p), 10)
	case *int:
		if *p == math.MaxInt {
			return "inf"
		}
		return strconv.Itoa(*p)
	case *float64:
		if *p == math.MaxFloat64 {
			return "inf"
		}
		return strconv.FormatFloat(*p, 'f', 3, 64)
	case *string:
		return *p
	case *time.Duration:
		return formatDuration(*p)
	}
	items := make([]string, v.Len())
	for i := range items {
		items[i] = format(v.Index(i))
	}
	return strings.Join(items, ",")
}

// syntax describes the values that a setting of v's type accepts, in C UCX's words. It returns ""
// for a Value that is not a Syntaxer.
func syntax(v reflect.Value) string {
	switch p := v.Addr().Interface().(type) {
	case Syntaxer:
		return p.ConfigSyntax()
	case *bool:
		return "<y|n>"
	case *int:
		return "integer"
	case *uint:
		return "unsigned integer"
	case *float64:
		return "floating point number"
	case *time.Duration:
		return "time value: <number>[m|s|ms|us|ns]"
	case *string:
		return "string"
	case Value:
		return ""
	}
	return "comma-separated list of: " + syntax(reflect.New(v.Type().Elem()).Elem())
}

// isInf reports whether s is "inf". An infinite int is stored as math.MaxInt, and an infinite
// float64 as math.MaxFloat64, so that arithmetic stays finite.
func isInf(s string) bool { return strings.EqualFold(strings.TrimSpace(s), "inf") }

func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "y", "yes", "on", "1":
		return true, true
	case "n", "no", "off", "0":
		return false, true
	}
	return false, false
}

// splitItems splits a comma-separated list. Empty items are dropped, as C UCX's
// strtok does.
func splitItems(s string) ([]string, error) {
	var items []string
	for s != "" {
		var item string
		item, s, _ = strings.Cut(s, ",")
		if item == "" {
			continue
		}
		if len(items) == maxItems {
			return nil, fmt.Errorf("more than %d items", maxItems)
		}
		items = append(items, item)
	}
	return items, nil
}
