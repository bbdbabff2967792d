//go:build linux

package uverbs

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// traceEnv is the environment variable that enables the trace.
const traceEnv = "VERBS_DEBUG"

// Traced returns f itself, or Trace of f to standard error if VERBS_DEBUG=1.
func Traced(f File) File {
	if os.Getenv(traceEnv) == "1" {
		return Trace(f, os.Stderr)
	}
	return f
}

// Trace returns a File that prints each call of f to w, one line each.
func Trace(f File, w io.Writer) File { return &tracer{File: f, w: w} }

type tracer struct {
	File
	mu sync.Mutex
	w  io.Writer // under mu
}

func (t *tracer) print(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, t.Name()+": "+format+"\n", args...)
}

func (t *tracer) Ioctl(f *Frame) syscall.Errno {
	before := Format(f, false)
	e := t.File.Ioctl(f)
	if e != 0 {
		t.print("%s = %d (%v)", before, -int(e), e)
	} else {
		t.print("%s = 0%s", before, Format(f, true))
	}
	return e
}

func (t *tracer) Write(b []byte) (int, syscall.Errno) {
	n, e := t.File.Write(b)
	what := hex.EncodeToString(b)
	if len(b) >= 8 {
		if c := abi.LookupCommand(binary.NativeEndian.Uint32(b)); c != nil && len(b)-8 >= int(c.In.Size()) {
			what = c.Name + FormatStruct(c.In, b[8:])
		}
	}
	if e != 0 {
		t.print("write(%s) = %d (%v)", what, -int(e), e)
	} else {
		t.print("write(%s) = %d", what, n)
	}
	return n, e
}

func (t *tracer) Mmap(offset uint64, length int) ([]byte, syscall.Errno) {
	b, e := t.File.Mmap(offset, length)
	if e != 0 {
		t.print("mmap(%#x, %d) = %d (%v)", offset, length, -int(e), e)
	} else {
		t.print("mmap(%#x, %d) = ok", offset, length)
	}
	return b, e
}

func (t *tracer) Munmap(b []byte) syscall.Errno {
	e := t.File.Munmap(b)
	t.print("munmap(%d) = %d", len(b), -int(e))
	return e
}

func (t *tracer) Close() error {
	err := t.File.Close()
	t.print("close() = %v", err)
	return err
}

// Format describes a request by the table: the kernel's input or, if answer is true, its output. It
// never fails: a request that cannot be parsed is described as such.
func Format(f *Frame, answer bool) string {
	r, errno := Parse(f)
	if errno != 0 {
		if h := f.Header(); h != nil {
			return fmt.Sprintf("object %d method %d (%v)", h.ObjectId, h.MethodId, errno)
		}
		return fmt.Sprintf("no request (%v)", errno)
	}
	name := r.Spec.Name
	var command *abi.CommandSpec
	if a := r.Attr(abi.UVERBS_ATTR_WRITE_CMD); a != nil && r.Spec == abi.Lookup(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE) {
		if command = abi.LookupCommand(uint32(binary.NativeEndian.Uint64(a.Bytes))); command != nil {
			name = command.Name
		}
	}
	var parts []string
	for i := range r.Attrs {
		a := &r.Attrs[i]
		if a.Spec.Kind.FromKernel() != answer || command != nil && a.Spec.ID == abi.UVERBS_ATTR_WRITE_CMD {
			continue
		}
		typ := a.Spec.Type
		if command != nil {
			switch a.Spec.ID {
			case abi.UVERBS_ATTR_CORE_IN:
				typ = command.In
			case abi.UVERBS_ATTR_CORE_OUT:
				typ = command.Out
			}
		}
		parts = append(parts, a.Spec.Name+"="+formatAttr(a, typ))
	}
	list := strings.Join(parts, ", ")
	if !answer {
		return name + "(" + list + ")"
	}
	if list != "" {
		return " [" + list + "]"
	}
	return ""
}

func formatAttr(a *RequestAttr, typ reflect.Type) string {
	switch a.Spec.Kind {
	case abi.In, abi.Out, abi.Const:
		if typ != nil && len(a.Bytes) >= int(typ.Size()) {
			return FormatStruct(typ, a.Bytes)
		}
		switch len(a.Bytes) {
		case 4:
			return fmt.Sprint(binary.NativeEndian.Uint32(a.Bytes))
		case 8:
			return fmt.Sprint(binary.NativeEndian.Uint64(a.Bytes))
		}
		return hex.EncodeToString(a.Bytes)
	}
	return fmt.Sprint(int64(a.Raw.Data))
}

// FormatStruct returns the fields of a struct of package abi that are not 0. b must have at least
// the size of the struct.
func FormatStruct(typ reflect.Type, b []byte) string {
	var parts []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Name == "_" {
			continue
		}
		part := b[f.Offset:][:f.Type.Size()]
		text := ""
		switch f.Type.Kind() {
		case reflect.Struct:
			text = FormatStruct(f.Type, part)
			if text == "{}" {
				continue
			}
		case reflect.Array:
			text = hex.EncodeToString(part)
			if strings.Trim(text, "0") == "" {
				continue
			}
		default:
			var v uint64
			switch len(part) {
			case 1:
				v = uint64(part[0])
			case 2:
				v = uint64(binary.NativeEndian.Uint16(part))
			case 4:
				v = uint64(binary.NativeEndian.Uint32(part))
			default:
				v = binary.NativeEndian.Uint64(part)
			}
			if v == 0 {
				continue
			}
			text = fmt.Sprint(v)
			if v > 0xffff {
				text = fmt.Sprintf("%#x", v)
			}
		}
		parts = append(parts, f.Name+"="+text)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
