package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// command runs the command in args and prints its result.
func (c *client) command(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "get":
		value, version, err := c.get(ctx, args[1])
		if err == nil {
			fmt.Printf("%s\tversion %d\n", value, version)
		}
		return err
	case len(args) == 3 && args[0] == "put":
		version, err := c.put(ctx, args[1], args[2])
		if err == nil {
			fmt.Printf("version %d\n", version)
		}
		return err
	case len(args) == 4 && args[0] == "swap":
		version, err := strconv.ParseUint(args[2], 0, 64)
		if err == nil {
			version, err = c.swap(ctx, args[1], version, args[3])
		}
		if err == nil {
			fmt.Printf("version %d\n", version)
		}
		return err
	}
	return checkCommand(args)
}

// checkCommand returns an error if a command is invalid.
func checkCommand(args []string) error {
	words := map[string]int{"get": 2, "put": 3, "swap": 4}
	if len(args) == 0 || words[args[0]] != len(args) {
		return fmt.Errorf("%q is not one of: get KEY, put KEY VALUE, swap KEY VERSION VALUE", args)
	}
	if args[0] == "swap" {
		if _, err := strconv.ParseUint(args[2], 0, 64); err != nil {
			return fmt.Errorf("version %s: %w", args[2], err)
		}
	}
	return nil
}

const (
	adders = 8
	adds   = 250
)

// show demonstrates the operations of a client.
func (c *client) show(ctx context.Context) error {
	fmt.Printf("%d slots, over %s\n", c.table.slots, c.ways())
	if _, err := c.put(ctx, "color", "red"); err != nil {
		return err
	}
	value, version, err := c.get(ctx, "color")
	if err != nil {
		return err
	}
	fmt.Printf("color is %s, version %d\n", value, version)
	next, err := c.swap(ctx, "color", version, "green")
	if err != nil {
		return err
	}
	fmt.Printf("color is green, version %d\n", next)
	if _, err = c.swap(ctx, "color", version, "blue"); !errors.Is(err, errChanged) {
		return fmt.Errorf("swap of version %d: %v, want %w", version, err, errChanged)
	}
	fmt.Printf("blue for version %d: %v\n", version, err)

	total, err := c.addAll(ctx, "counter")
	if err != nil {
		return err
	}
	fmt.Printf("%d goroutines have added 1 to a counter %d times each: %s\n", adders, adds, total)
	return nil
}

// addAll increments the number stored under a key from many goroutines, and returns the final
// value.
func (c *client) addAll(ctx context.Context, key string) (string, error) {
	ended := make(chan error)
	for range adders {
		go func() { ended <- c.add(ctx, key, adds) }()
	}
	var errs []error
	for range adders {
		errs = append(errs, <-ended)
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	total, _, err := c.get(ctx, key)
	return total, err
}

// add increments the number stored under a key the given number of times.
func (c *client) add(ctx context.Context, key string, times int) error {
	for done := 0; done < times; {
		value, version, err := c.get(ctx, key)
		if errors.Is(err, errNoKey) {
			value, err = "0", nil
		}
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		switch _, err := c.swap(ctx, key, version, strconv.Itoa(n+1)); {
		case err == nil:
			done++
		case !errors.Is(err, errChanged): // by another goroutine
			return err
		}
	}
	return nil
}

// ways returns the names of the transports to the server.
func (c *client) ways() string {
	var names []string
	for _, t := range c.ep.Attr().Transports {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
