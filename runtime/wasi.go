package runtime

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
)

// WASI preview 1 as far as language runtimes need it: no arguments, no
// environment, no directories, no files but the three standard streams. All
// state is the call's. The functions that could open or name anything answer
// that the descriptor is not open.

// Error numbers of WASI.
const (
	errnoSuccess = 0
	errnoBadf    = 8
	errnoInval   = 28
	errnoNosys   = 52
	errnoSpipe   = 70
)

const (
	// clockGrain is how fine a guest sees time pass. Timers and logs need no
	// more; measuring caches of the processor does.
	clockGrain = time.Microsecond

	maxRandom  = 1 << 20 // bytes of one random_get
	maxVectors = 1_024   // buffers of one fd_write
	maxSubs    = 1_024   // subscriptions of one poll_oneoff
)

// The clocks of WASI that we have.
const (
	clockReal      = 0
	clockMonotonic = 1
)

var wasiFunctions = map[string]hostFunc{
	"args_get":          support("ii>i", success),
	"args_sizes_get":    support("ii>i", noStrings),
	"environ_get":       support("ii>i", success),
	"environ_sizes_get": support("ii>i", noStrings),
	"clock_res_get": support("ii>i", func(l *lease, mem guestMemory, a []uint64) uint64 {
		if _, ok := l.clock(uint32(a[0])); !ok {
			return errnoInval
		}
		binary.LittleEndian.PutUint64(mem.view(a[1], 8), uint64(l.grain()))
		return errnoSuccess
	}),
	"clock_time_get": support("iIi>i", func(l *lease, mem guestMemory, a []uint64) uint64 {
		t, ok := l.clock(uint32(a[0]))
		if !ok {
			return errnoInval
		}
		binary.LittleEndian.PutUint64(mem.view(a[2], 8), uint64(t))
		return errnoSuccess
	}),
	"fd_advise":            support("iIIi>i", badf),
	"fd_allocate":          support("iII>i", badf),
	"fd_close":             support("i>i", badf),
	"fd_datasync":          support("i>i", badf),
	"fd_fdstat_get":        support("ii>i", fdstat),
	"fd_fdstat_set_flags":  support("ii>i", badf),
	"fd_fdstat_set_rights": support("iII>i", badf),
	"fd_filestat_get":      support("ii>i", badf),
	"fd_filestat_set_size": support("iI>i", badf),
	"fd_filestat_set_times": support("iIIi>i",
		badf),
	"fd_pread":            support("iiiIi>i", badf),
	"fd_prestat_get":      support("ii>i", badf),
	"fd_prestat_dir_name": support("iii>i", badf),
	"fd_pwrite":           support("iiiIi>i", badf),
	"fd_read": support("iiii>i", func(_ *lease, mem guestMemory, a []uint64) uint64 {
		if uint32(a[0]) != 0 {
			return errnoBadf
		}
		binary.LittleEndian.PutUint32(mem.view(a[3], 4), 0) // the end of the input
		return errnoSuccess
	}),
	"fd_readdir":  support("iiiIi>i", badf),
	"fd_renumber": support("ii>i", badf),
	"fd_seek": support("iIii>i", func(_ *lease, _ guestMemory, a []uint64) uint64 {
		if uint32(a[0]) > 2 {
			return errnoBadf
		}
		return errnoSpipe
	}),
	"fd_sync":                 support("i>i", badf),
	"fd_tell":                 support("ii>i", badf),
	"fd_write":                support("iiii>i", fdWrite),
	"path_create_directory":   support("iii>i", badf),
	"path_filestat_get":       support("iiiii>i", badf),
	"path_filestat_set_times": support("iiiiIIi>i", badf),
	"path_link":               support("iiiiiii>i", badf),
	"path_open":               support("iiiiiIIii>i", badf),
	"path_readlink":           support("iiiiii>i", badf),
	"path_remove_directory":   support("iii>i", badf),
	"path_rename":             support("iiiiii>i", badf),
	"path_symlink":            support("iiiii>i", badf),
	"path_unlink_file":        support("iii>i", badf),
	"poll_oneoff":             support("iiii>i", pollOneoff),
	"proc_exit": support("i>", func(_ *lease, _ guestMemory, a []uint64) uint64 {
		panic(&stop{err: tool.Errorf(tool.Trap, "the module exited with code %d instead of answering", uint32(a[0]))})
	}),
	"proc_raise":    support("i>i", nosys),
	"sched_yield":   support(">i", success),
	"random_get":    support("ii>i", randomGet),
	"sock_accept":   support("iii>i", badf),
	"sock_recv":     support("iiiiii>i", badf),
	"sock_send":     support("iiiii>i", badf),
	"sock_shutdown": support("ii>i", badf),
}

func support(sig string, f func(*lease, guestMemory, []uint64) uint64) hostFunc {
	return hostFunc{sig, hostfuncs.Support, f}
}

func success(*lease, guestMemory, []uint64) uint64 { return errnoSuccess }
func badf(*lease, guestMemory, []uint64) uint64    { return errnoBadf }
func nosys(*lease, guestMemory, []uint64) uint64   { return errnoNosys }

// noStrings says that there are no arguments or variables, and no bytes of them.
func noStrings(_ *lease, mem guestMemory, a []uint64) uint64 {
	binary.LittleEndian.PutUint32(mem.view(a[0], 4), 0)
	binary.LittleEndian.PutUint32(mem.view(a[1], 4), 0)
	return errnoSuccess
}

// clock reads a clock in nanoseconds.
func (l *lease) clock(id uint32) (int64, bool) {
	switch id {
	case clockReal:
		return l.wall(), true
	case clockMonotonic:
		return l.monotonic(), true
	}
	return 0, false
}

// wall is the time of day. It is never before the one that the guest may have
// seen while it was initialised, whatever the host's clock says, and within a
// call it goes on steadily even if that clock is set.
func (l *lease) wall() int64 {
	if o := l.outset; o != nil {
		return dawn.UnixNano() + o.look()
	}
	now := l.day.Add(time.Since(l.began))
	return max(now.Truncate(l.grain()).UnixNano(), dawn.Add(startTime).UnixNano())
}

// monotonic is a clock that goes on where the snapshot's stood: the same guest
// is restored on other days and after other boots, and time must not run
// backwards for it. It began at one second, as Go's runtime takes a reading of
// zero for a broken clock.
func (l *lease) monotonic() int64 {
	if o := l.outset; o != nil {
		return int64(time.Second) + o.look()
	}
	return max(l.clockFrom, int64(time.Second)) + int64(time.Since(l.began).Truncate(l.grain()))
}

// fdstat describes the standard streams as character devices that cannot seek.
func fdstat(_ *lease, mem guestMemory, a []uint64) uint64 {
	if uint32(a[0]) > 2 {
		return errnoBadf
	}
	out := mem.view(a[1], 24)
	clear(out)
	out[0] = 2 // character device
	if uint32(a[0]) == 0 {
		out[8] = 1 << 1 // the right to read
	} else {
		out[8] = 1 << 6 // the right to write
	}
	return errnoSuccess
}

// fdWrite sends the buffers to the log.
func fdWrite(l *lease, mem guestMemory, a []uint64) uint64 {
	fd := uint32(a[0])
	if fd != 1 && fd != 2 {
		return errnoBadf
	}
	if uint32(a[2]) > maxVectors {
		return errnoInval
	}
	vectors := mem.view(a[1], 8*uint64(uint32(a[2])))
	total := uint32(0)
	for ; len(vectors) > 0; vectors = vectors[8:] {
		ptr, n := binary.LittleEndian.Uint32(vectors), binary.LittleEndian.Uint32(vectors[4:])
		p := mem.view(uint64(ptr), uint64(n))
		if err := l.call.Stdio(fd, p); err != nil {
			panic(&stop{err: tool.AsError(err)})
		}
		total += n
	}
	binary.LittleEndian.PutUint32(mem.view(a[3], 4), total)
	return errnoSuccess
}

func randomGet(l *lease, mem guestMemory, a []uint64) uint64 {
	if uint32(a[1]) > maxRandom {
		return errnoInval
	}
	buf := mem.view(a[0], a[1])
	if l.outset != nil {
		_, _ = l.outset.entropy.Read(buf)
	} else {
		rand.Read(buf) // never fails
	}
	return errnoSuccess
}

// Layout of poll_oneoff's records.
const (
	subSize   = 48
	eventSize = 32

	tagClock = 0
	tagRead  = 1
	tagWrite = 2
)

// pollOneoff waits for the first clock, or answers at once for descriptors. It
// waits no longer than the call has, and then ends it.
func pollOneoff(l *lease, mem guestMemory, a []uint64) uint64 {
	n := uint32(a[2])
	if n == 0 || n > maxSubs {
		return errnoInval
	}
	// Copied first: the guest's input and output may be the same memory.
	subs := append([]byte(nil), mem.view(a[0], uint64(n)*subSize)...)
	out := mem.view(a[1], uint64(n)*eventSize)
	count := mem.view(a[3], 4)

	var wait time.Duration = -1
	waits := make([]time.Duration, n)
	events := 0
	event := func(i int, errno uint16, tag byte) {
		e := out[events*eventSize : (events+1)*eventSize]
		clear(e)
		copy(e, subs[i*subSize:i*subSize+8])
		binary.LittleEndian.PutUint16(e[8:], errno)
		e[10] = tag
		events++
	}
	for i := range waits {
		s := subs[i*subSize : (i+1)*subSize]
		waits[i] = -1
		switch tag := s[8]; tag {
		case tagClock:
			d, ok := l.untilClock(s)
			if !ok {
				event(i, errnoInval, tag)
				continue
			}
			waits[i] = d
			if wait < 0 || d < wait {
				wait = d
			}
		case tagRead, tagWrite:
			errno := uint16(errnoSuccess)
			if fd := binary.LittleEndian.Uint32(s[16:]); fd > 2 || (fd == 0) != (tag == tagRead) {
				errno = errnoBadf
			}
			event(i, errno, tag)
		default:
			return errnoInval
		}
	}
	if events == 0 {
		l.sleep(wait)
		for i, d := range waits {
			if d >= 0 && d <= wait {
				event(i, errnoSuccess, tagClock)
			}
		}
	}
	binary.LittleEndian.PutUint32(count, uint32(events))
	return errnoSuccess
}

// untilClock tells how long a clock subscription has to wait.
func (l *lease) untilClock(s []byte) (time.Duration, bool) {
	now, ok := l.clock(binary.LittleEndian.Uint32(s[16:]))
	if !ok {
		return 0, false
	}
	timeout := binary.LittleEndian.Uint64(s[24:])
	if binary.LittleEndian.Uint16(s[40:])&1 != 0 { // a point in time
		if timeout <= uint64(now) {
			return 0, true
		}
		timeout -= uint64(now)
	}
	return time.Duration(min(timeout, uint64(maxTime))), true
}

// sleep waits for d, or ends the guest when its time is over. Before there is a
// call the clocks advance instead.
func (l *lease) sleep(d time.Duration) {
	if o := l.outset; o != nil {
		if o.now += int64(d); o.now > int64(startTime) {
			panic(&stop{err: tool.Errorf(tool.Timeout, "it sleeps for longer than %s", startTime)})
		}
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.term.context().Done():
		panic(l.timeUp())
	}
}
