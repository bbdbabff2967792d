package config

import (
	"fmt"
	"slices"
	"strings"
)

// ParseKeyed reads a value for each of some keys: one value for all ("8k"), or a list of KEY:VALUE
// in which a value without a key is for the keys that the list does not name ("8k,intra:64k"), as
// in C UCX (UCS_CONFIG_TYPE_KEY_VALUE). It calls the function set, with the index in keys, for each
// key that has a value. If the list has several values for a key, the last one applies.
func ParseKeyed(s string, keys []string, set func(key int, value string) error) error {
	values := make([]string, len(keys))
	rest := ""
	items, err := splitItems(s)
	if err != nil {
		return err
	}
	for _, item := range items {
		key, value, named := strings.Cut(strings.TrimSpace(item), ":")
		if !named {
			rest = key
			continue
		}
		k := slices.Index(keys, strings.TrimSpace(key))
		if k < 0 {
			return fmt.Errorf("%s is not one of %s", quote(key), strings.Join(keys, ", "))
		}
		if values[k] = value; value == "" {
			return fmt.Errorf("nothing after %s", quote(key+":"))
		}
	}
	if len(items) == 0 {
		return errSyntax
	}
	for k, value := range values {
		named := value != ""
		if !named {
			value = rest
		}
		if value == "" {
			continue
		}
		switch err := set(k, value); {
		case err != nil && named:
			return fmt.Errorf("%s: %w", keys[k], err)
		case err != nil && len(items) > 1:
			return fmt.Errorf("%s: %w", quote(value), err)
		case err != nil:
			return err
		}
	}
	return nil
}

// FormatKeyed prints values that ParseKeyed reads, each with its key, as C UCX does.
func FormatKeyed(keys, values []string) string {
	items := make([]string, len(keys))
	for k, key := range keys {
		items[k] = key + ":" + values[k]
	}
	return strings.Join(items, ",")
}

// KeyedSyntax returns the syntax of what ParseKeyed reads, given the syntax of one value.
func KeyedSyntax(keys []string, syntax string) string {
	return "comma-separated list of: [" + strings.Join(keys, "|") + ":]" + syntax
}
