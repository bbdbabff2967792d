package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/ucx-go/ucx/ucp"
)

// memory is memory that the other side may access.
type memory struct {
	*ucp.Memory
	buffer *buffer
	start  uint64 // the offset of the buffer's piece in the mapping
}

// The commands for one-sided operations.
func init() {
	for name, c := range map[string]struct {
		args int
		run  func(s *server, args []string) (string, error)
	}{
		"map":     {4, (*server).mapMemory},
		"unmap":   {1, (*server).unmap},
		"check":   {3, (*server).check},
		"word":    {3, (*server).word},
		"setword": {4, (*server).setWord},
		"unpack":  {3, (*server).unpack},
		"release": {1, (*server).release},
		"put":     {6, (*server).put},
		"get":     {5, (*server).get},
		"atomic":  {9, (*server).atomic},
		"fence":   {0, (*server).fence},
	} {
		commands[name] = c
	}
}

// mapMemory runs the command "map MEMORY SIZE SEED own|new", which maps memory for access by the
// other side and returns its address and key.
func (s *server) mapMemory(args []string) (string, error) {
	n, err := numbers(args[:2]...)
	if err != nil {
		return "", err
	}
	c, err := contents(args[2])
	if err != nil {
		return "", err
	}
	if s.memories[n[0]] != nil {
		return "", fmt.Errorf("memory %d is in use", n[0])
	}
	mapped := s.register
	if args[3] == "new" {
		mapped = s.allocate
	}
	m, err := mapped(int(n[1]))
	if err != nil {
		return "", err
	}
	if c.seed != 0 {
		m.buffer.fill(c)
	}
	key, err := m.PackRkey()
	if err != nil {
		return "", err
	}
	s.memories[n[0]] = m
	return fmt.Sprintf("%#x %s", m.Attr().Address+m.start, hex.EncodeToString(key)), nil
}

// register maps memory of the program.
func (s *server) register(size int) (*memory, error) {
	b, err := newBuffer("contig", size)
	if err != nil {
		return nil, err
	}
	m, err := s.context.MemMap(ucp.MemMapParams{Buffer: b.pieces[0]})
	return &memory{m, b, 0}, err
}

// allocate maps memory that the library allocates, with guards.
func (s *server) allocate(size int) (*memory, error) {
	if size < 0 || size > maxSize {
		return nil, fmt.Errorf("bad size: %d", size)
	}
	m, err := s.context.MemMap(ucp.MemMapParams{Length: size + 2*guard, Flags: ucp.MemMapAllocate})
	if err != nil {
		return nil, err
	}
	return &memory{m, bufferIn(m.Bytes()[:size+2*guard]), guard}, nil
}

func (s *server) memory(arg string) (uint64, *memory, error) {
	n, err := strconv.ParseUint(arg, 0, 64)
	if err != nil || s.memories[n] == nil {
		return 0, nil, fmt.Errorf("no memory %s", arg)
	}
	return n, s.memories[n], nil
}

// unmap runs the command "unmap MEMORY", which unmaps memory.
func (s *server) unmap(args []string) (string, error) {
	n, m, err := s.memory(args[0])
	if err != nil {
		return "", err
	}
	delete(s.memories, n)
	return "", m.Close()
}

// check runs the command "check MEMORY SEED LENGTH", which compares memory with the expected
// contents.
func (s *server) check(args []string) (string, error) {
	_, m, err := s.memory(args[0])
	if err != nil {
		return "", err
	}
	c, err := contents(args[1])
	if err != nil {
		return "", err
	}
	n, err := numbers(args[2])
	if err != nil {
		return "", err
	}
	return m.buffer.verify(c, int(n[0])), nil
}

// at returns the word of a memory that the arguments MEMORY OFFSET SIZE select.
func (s *server) at(args []string) ([]byte, error) {
	_, m, err := s.memory(args[0])
	if err != nil {
		return nil, err
	}
	n, err := numbers(args[1:3]...)
	if err != nil {
		return nil, err
	}
	b := m.buffer.pieces[0]
	if n[1] != 4 && n[1] != 8 || n[0]+n[1] > uint64(len(b)) {
		return nil, errors.New("bad number")
	}
	return b[n[0] : n[0]+n[1]], nil
}

// word runs the command "word MEMORY OFFSET SIZE", which returns a word of a memory.
func (s *server) word(args []string) (string, error) {
	b, err := s.at(args)
	return fmt.Sprintf("%#x", decode(b)), err
}

// setWord runs the command "setword MEMORY OFFSET SIZE VALUE", which writes a word of a memory.
func (s *server) setWord(args []string) (string, error) {
	b, err := s.at(args)
	if err != nil {
		return "", err
	}
	v, err := numbers(args[3])
	if err == nil {
		copy(b, encode(v[0], len(b)))
	}
	return "", err
}

func encode(v uint64, size int) []byte {
	b := binary.NativeEndian.AppendUint64(nil, v)
	if size == 4 {
		b = binary.NativeEndian.AppendUint32(nil, uint32(v))
	}
	return b
}

func decode(b []byte) uint64 {
	switch len(b) {
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	case 8:
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

// unpack runs the command "unpack KEY EP PACKED", which unpacks a remote key.
func (s *server) unpack(args []string) (string, error) {
	ep, err := s.endpoint(args[1])
	if err != nil {
		return "", err
	}
	n, err := numbers(args[0])
	if err != nil {
		return "", err
	}
	if s.keys[n[0]] != nil {
		return "", fmt.Errorf("key %d is in use", n[0])
	}
	packed, err := hex.DecodeString(args[2])
	if err != nil {
		return "", err
	}
	key, err := ep.UnpackRkey(packed)
	if err == nil {
		s.keys[n[0]] = key
	}
	return "", err
}

// release runs the command "release KEY", which releases an unpacked key.
func (s *server) release(args []string) (string, error) {
	n, err := numbers(args[0])
	if err != nil {
		return "", err
	}
	key := s.keys[n[0]]
	delete(s.keys, n[0])
	if key == nil {
		return "", nil
	}
	return "", key.Close()
}

// access holds the common arguments of put, get and atomic.
type access struct {
	*endpoint
	key           *ucp.Rkey
	address, size uint64
	request       *request
}

// access parses the arguments REQUEST EP KEY ADDRESS SIZE and registers the request.
func (s *server) access(args []string) (a access, err error) {
	if a.endpoint, err = s.endpoint(args[1]); err != nil {
		return a, err
	}
	n, err := numbers(args[2:5]...)
	if err != nil {
		return a, err
	}
	if a.key = s.keys[n[0]]; a.key == nil {
		return a, fmt.Errorf("no key %d", n[0])
	}
	a.address, a.size, a.request = n[1], n[2], new(request)
	return a, s.newRequest(args[0], a.request)
}

// put runs the command "put REQUEST EP KEY ADDRESS SIZE SEED", which starts a put.
func (s *server) put(args []string) (string, error) {
	a, err := s.access(args)
	if err != nil {
		return "", err
	}
	c, err := contents(args[5])
	if err != nil {
		return "", err
	}
	b, err := newBuffer("contig", int(a.size))
	if err != nil {
		return "", err
	}
	b.fill(c)
	a.request.buffer = b
	a.request.handle, a.request.err = a.Put(b.pieces[0], a.address, a.key, nil)
	return "", nil
}

// get runs the command "get REQUEST EP KEY ADDRESS SIZE", which starts a get.
func (s *server) get(args []string) (string, error) {
	a, err := s.access(args)
	if err != nil {
		return "", err
	}
	b, err := newBuffer("contig", int(a.size))
	if err != nil {
		return "", err
	}
	a.request.buffer, a.request.isGet = b, true
	a.request.handle, a.request.err = a.Get(b.pieces[0], a.address, a.key, nil)
	return "", nil
}

var atomicOps = map[string]ucp.AtomicOp{
	"add": ucp.AtomicAdd, "swap": ucp.AtomicSwap, "cswap": ucp.AtomicCompareSwap,
	"and": ucp.AtomicAnd, "or": ucp.AtomicOr, "xor": ucp.AtomicXor,
}

// atomic runs the command "atomic REQUEST EP KEY ADDRESS SIZE OP OPERAND REPLY post|fetch", which
// starts an atomic operation.
func (s *server) atomic(args []string) (string, error) {
	a, err := s.access(args)
	if err != nil {
		return "", err
	}
	op, known := atomicOps[args[5]]
	if !known {
		return "", fmt.Errorf("bad operation: %s", args[5])
	}
	n, err := numbers(args[6:8]...)
	if err != nil {
		return "", err
	}
	var params *ucp.RequestParams
	if args[8] == "fetch" {
		a.request.reply = encode(n[1], int(a.size))
		params = &ucp.RequestParams{ReplyBuffer: a.request.reply}
	}
	a.request.handle, a.request.err = a.Atomic(op, encode(n[0], int(a.size)), a.address, a.key, params)
	return "", nil
}

func (s *server) fence([]string) (string, error) { return "", s.worker().Fence() }
