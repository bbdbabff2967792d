//go:build linux && (amd64 || arm64)

package run_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest/run"
)

// childRole names the variable with the role of this program when a test has started it.
const childRole = "RUN_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var roles = map[string]func(args []string) error{
	"list": list, "talk": talk, "hold": hold, "close": closed, "become": become, "number": number, "events": events, "wild": wild, "nested": nested,
}

// stay reports that a child is ready and waits for input.
func stay() {
	fmt.Println("ready")
	io.ReadFull(os.Stdin, make([]byte, 1))
}

// list prints the devices and some files.
func list([]string) error {
	found, err := verbs.Devices("")
	if err != nil {
		return err
	}
	for i := range found {
		d := &found[i]
		fmt.Println(d.Name, d.Uverbs, d.ABIVersion, unix.Major(d.Rdev), unix.Minor(d.Rdev), "PCI", d.PCI, "driver", d.Driver, "ports", len(d.Ports), d.Ports[0].State)
	}
	for _, name := range []string{"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs9", "/dev/infiniband", "/sys/class/infiniband", "/sys/class/infiniband/../infiniband_verbs/abi_version", "/sys/class/infiniband_mad"} {
		st, err := os.Stat(name)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(name, st.Mode().Type())
	}
	for _, pattern := range []string{"/dev/infiniband/*", "/sys/class/infiniband/*"} {
		names, _ := filepath.Glob(pattern)
		fmt.Println(names)
	}
	link, err := os.Readlink("/sys/class/infiniband/" + found[0].Name)
	fmt.Println(link, err)
	_, err = os.Readlink("/sys/class/infiniband")
	fmt.Println(err)
	_, err = os.ReadFile("/proc/self/stat") // the real file of the machine
	fmt.Println(err)
	fmt.Println(os.WriteFile("/sys/class/infiniband/x", nil, 0o600), unix.Access("/sys/class/infiniband_verbs/abi_version", unix.W_OK),
		unix.Access("/dev/infiniband/uverbs0", unix.R_OK|unix.W_OK))
	var stx unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, "/dev/infiniband/uverbs0", 0, unix.STATX_BASIC_STATS, &stx)
	fmt.Println(stx.Mode&unix.S_IFMT == unix.S_IFCHR, stx.Rdev_major, stx.Rdev_minor, err)
	_, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 20)
	fmt.Println(err)
	return nil
}

// talk sends messages from the first device to the last one, which may be the same, and waits for
// each asleep.
func talk([]string) error {
	found, err := verbs.Devices("")
	if err != nil {
		return err
	}
	a, err := newEnd(&found[0])
	if err != nil {
		return err
	}
	b, err := newEnd(&found[len(found)-1])
	if err != nil {
		return err
	}
	if err := errors.Join(a.meet(b), b.meet(a)); err != nil {
		return err
	}
	for i := range 20 {
		if err := a.say(b, byte(i)); err != nil {
			return err
		}
		a, b = b, a
	}
	fmt.Println("said")
	return errors.Join(a.ctx.Close(), b.ctx.Close())
}

// end is one end of a connection.
type end struct {
	ctx     *verbs.Context
	channel *verbs.CompChannel
	cq      *verbs.CQ
	mr      *verbs.MR
	qp      *verbs.QP
	at      verbs.QPAttr
	gid     verbs.GID
	lid     verbs.LID
}

func newEnd(d *verbs.Device) (e *end, err error) {
	e = &end{}
	if e.ctx, err = d.Open(); err != nil {
		return nil, err
	}
	gid, err := e.ctx.DefaultGID(1)
	if err != nil {
		return nil, err
	}
	port, err := e.ctx.QueryPort(1)
	if err != nil {
		return nil, err
	}
	pd, err := e.ctx.AllocPD()
	if err != nil {
		return nil, err
	}
	e.gid, e.lid = gid.GID, port.LID
	e.at = verbs.QPAttr{Port: 1, PathMTU: port.ActiveMTU, AH: verbs.AHAttr{Port: 1, Global: true, SGIDIndex: uint8(gid.Index), HopLimit: 1}}
	if e.channel, err = e.ctx.CreateCompChannel(); err != nil {
		return nil, err
	}
	if e.cq, err = e.ctx.CreateCQ(8, e.channel, 0); err != nil {
		return nil, err
	}
	if e.mr, err = pd.RegMR(make([]byte, 8192), verbs.AccessLocalWrite); err != nil {
		return nil, err
	}
	e.qp, err = pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	return e, err
}

// meet connects an end to another.
func (e *end) meet(o *end) error {
	if err := e.qp.Init(&e.at); err != nil {
		return err
	}
	e.at.DestQPN, e.at.AH.DGID, e.at.AH.DLID = o.qp.QPN(), o.gid, o.lid
	return e.qp.Connect(&e.at)
}

// say sends a message, and checks it at the other end.
func (e *end) say(o *end, what byte) error {
	buf := o.mr.Bytes()
	clear(buf)
	if _, err := o.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{{Addr: o.mr.Addr(), Length: 5000, LKey: o.mr.LKey()}}}}); err != nil {
		return err
	}
	data := bytes.Repeat([]byte{what, what + 1}, 2500)
	copy(e.mr.Bytes(), data)
	if _, err := e.qp.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{{Addr: e.mr.Addr(), Length: 5000, LKey: e.mr.LKey()}}}}); err != nil {
		return err
	}
	for q, want := range map[*verbs.CQ]verbs.WC{o.cq: {ID: 1, ByteLen: 5000}, e.cq: {ID: 2}} {
		var wc [2]verbs.WC
		n, err := q.Wait(context.Background(), wc[:])
		if got := &wc[0]; err != nil || n != 1 || got.Status != verbs.WCSuccess || got.ID != want.ID || want.ByteLen != 0 && got.ByteLen != want.ByteLen {
			return fmt.Errorf("%d completions, %+v, %w", n, *got, err)
		}
	}
	if !bytes.Equal(buf[:5000], data) {
		return errors.New("wrong bytes")
	}
	return nil
}

// hold keeps a device open with objects on it.
func hold([]string) error {
	found, err := verbs.Devices("")
	if err != nil {
		return err
	}
	if _, err := newEnd(&found[0]); err != nil {
		return err
	}
	stay()
	return nil
}

// closed closes a device and stays.
func closed([]string) error {
	found, err := verbs.Devices("")
	if err != nil {
		return err
	}
	e, err := newEnd(&found[0])
	if err != nil {
		return err
	}
	if err := e.ctx.Close(); err != nil {
		return err
	}
	stay()
	return nil
}

// become executes another program with a device open, which closes the device.
func become([]string) error {
	found, err := verbs.Devices("")
	if err != nil {
		return err
	}
	if _, err := newEnd(&found[0]); err != nil {
		return err
	}
	os.Setenv(childRole, "list")
	fmt.Println("ready")
	return syscall.Exec("/proc/self/exe", []string{"run"}, os.Environ())
}

// number checks the descriptors of devices.
func number([]string) error {
	const node = "/dev/infiniband/uverbs0"
	a, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	b, err := unix.Open(node, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	flags, _ := unix.FcntlInt(uintptr(a), unix.F_GETFD, 0)
	more, _ := unix.FcntlInt(uintptr(b), unix.F_GETFD, 0)
	c, err := unix.FcntlInt(uintptr(a), unix.F_DUPFD, 950)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	var stx unix.Statx_t
	err = errors.Join(unix.Fstat(c, &st), unix.Statx(c, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &stx), unix.Close(a))
	fmt.Println(a, b, flags == unix.FD_CLOEXEC, more == 0, st.Mode&unix.S_IFMT == unix.S_IFCHR, st.Rdev == unix.Mkdev(231, 192), stx.Rdev_minor, err)
	_, err = unix.Write(c, []byte("no command")) // it is still a device
	fmt.Println(err, unix.Ftruncate(c, 0))
	unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 902, Max: 902})
	_, err = unix.Open(node, unix.O_RDWR, 0) // replaces a
	fmt.Println(err)
	_, err = unix.Open(node, unix.O_RDWR, 0)
	fmt.Println(err)
	stay()
	return unix.Close(c)
}

// events waits for an event of a device.
func events([]string) error {
	found, err := verbs.Devices("")
	if err != nil {
		return err
	}
	c, err := found[0].Open()
	if err != nil {
		return err
	}
	fmt.Println("ready")
	e, err := c.GetAsyncEvent(context.Background())
	if err != nil {
		return err
	}
	found, err = verbs.Devices("")
	if err != nil {
		return err
	}
	fmt.Println(e.Type, found[0].Ports[0].State, len(found))
	return c.Close()
}

// nested tries to make a machine on a machine, which is refused.
func nested([]string) error {
	_, err := run.New(verbstest.NewFabric())
	fmt.Println(errors.Is(err, ucs.ErrUnsupported), errors.Is(err, unix.EBUSY))
	return nil
}

// wild makes random calls with random arguments.
func wild(args []string) error {
	seed, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	found, err := verbs.Devices("")
	if err != nil {
		return err
	}
	if _, err := newEnd(&found[0]); err != nil { // so that objects exist
		return err
	}
	driver := map[string]uint32{"mlx5_core": verbstest.MLX5Driver, "": verbstest.Driver}[found[0].Driver]
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	if err := unix.Mprotect(mem[1<<19:], unix.PROT_NONE); err != nil { // half of it is inaccessible
		return err
	}
	half := mem[:1<<19]
	base := address(mem)
	where := func() uintptr {
		switch r.IntN(8) {
		case 0:
			return uintptr(r.Uint64())
		case 1:
			return base + 1<<19 - uintptr(r.IntN(64)) // near the end of the accessible half
		case 2:
			return 0
		}
		return base + uintptr(r.IntN(1<<18))&^7
	}
	fd := func() uintptr { return uintptr(900 + r.IntN(20)/17) } // mostly that with objects
	paths := []string{"/dev/infiniband/uverbs0", "/sys/class/infiniband/", "/sys/class/infiniband_verbs/uverbs0/dev", "/dev/infiniband/../infiniband/uverbs1"}
	for range 3000 {
		at := where()
		if at >= base && at < base+1<<18 {
			b := half[at-base:]
			switch r.IntN(3) {
			case 0:
				copy(b, paths[r.IntN(len(paths))]+"\x00")
			case 1:
				m := &abi.Methods[r.IntN(len(abi.Methods))]
				n := r.IntN(len(m.Attrs) + 2)
				copy(b, abi.Bytes(&abi.IoctlHdr{Length: uint16(24 + 16*n), ObjectId: m.Object, MethodId: m.ID, NumAttrs: uint16(n), DriverId: driver}))
				for i := range n {
					a := abi.Attr{AttrId: uint16(r.IntN(20)), Len: uint16(r.IntN(64)), Data: uint64(where())}
					if i < len(m.Attrs) && r.IntN(4) > 0 {
						a.AttrId, a.Len = m.Attrs[i].ID, uint16(m.Attrs[i].Min)
						if m.Attrs[i].Kind == abi.Const || m.Attrs[i].Kind > abi.Const {
							a.Data = uint64(r.IntN(30))
						}
					}
					copy(b[24+16*i:], abi.Bytes(&a))
				}
			}
		}
		const dirfd = ^uintptr(99) // AT_FDCWD
		switch r.IntN(9) {
		case 0:
			unix.Syscall6(unix.SYS_OPENAT, dirfd, at, uintptr(r.IntN(1<<22)), 0, 0, 0)
		case 1:
			unix.Syscall6(unix.SYS_NEWFSTATAT, fd(), at, where(), uintptr(r.IntN(1<<13)), 0, 0)
		case 2:
			unix.Syscall6(unix.SYS_STATX, fd(), at, uintptr(r.IntN(1<<13)), uintptr(r.IntN(1<<12)), where(), 0)
		case 3:
			unix.Syscall6(unix.SYS_READLINKAT, dirfd, at, where(), uintptr(r.IntN(5000)), 0, 0)
		case 4:
			unix.Syscall(unix.SYS_WRITE, fd(), at, uintptr(r.IntN(6000)))
		case 5:
			unix.Syscall(unix.SYS_FSTAT, fd(), at, 0)
		case 6:
			if r.IntN(10) == 0 {
				unix.Syscall(unix.SYS_CLOSE, fd(), 0, 0)
			}
		default:
			unix.Syscall(unix.SYS_IOCTL, fd(), abi.RDMA_VERBS_IOCTL, at)
		}
	}
	fmt.Println("wild")
	return nil
}
