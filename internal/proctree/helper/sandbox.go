//go:build linux && (amd64 || arm64)

package helper

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

// sandbox is what a profile has become on this system.
type sandbox struct {
	ready wire.Ready
	rules *ruleset // nil: no Landlock
	calls filter   // nil: no filter, and programs may gain rights
	boxed bool
	nice  int
	// wrapped: bubblewrap has made the box.
	wrapped bool
	// What is covered and read-only in a box.
	hide, protect []string
}

// prepare does all that is done once and for all trees of a reaper, but for
// what concerns only the thread that starts programs; see restrict. reason is
// why the profile cannot be had.
func prepare(s *wire.Setup, role string) (sb *sandbox, reason string) {
	boxed := role != RoleReaper
	sb = &sandbox{boxed: boxed, wrapped: role == RoleWrapped, nice: int(s.Nice)}
	if r := limit(s); r != "" {
		return nil, r
	}
	switch s.Profile {
	case "none":
		if boxed {
			return nil, "it is for a reaper without a box"
		}
		sb.ready = wire.Ready{Means: []string{"subreaper"}, Network: "host"}
		return sb, ""
	case "workspace-write", "read-only":
	default:
		return nil, "there is no such profile"
	}
	if r := checkPaths(s); r != "" {
		return nil, r
	}
	if s.Profile == "read-only" && len(s.Write) > 0 {
		return nil, "it writes nowhere but in /tmp"
	}
	version := landlockVersion()
	if boxed {
		return sb, sb.box(s, version)
	}
	return sb, sb.weak(s, version)
}

// box is the whole sandbox: an own view of files, processes and network, with
// Landlock, where there is any, as a second wall around writes.
func (sb *sandbox) box(s *wire.Setup, version int) string {
	sb.protect = s.Protect
	for _, h := range s.Hide {
		// A cover that leads to the workspace is not put twice.
		if !slices.ContainsFunc(slices.Concat(s.Write, s.Read), func(w string) bool { return below(w, h) }) {
			sb.hide = append(sb.hide, h)
		}
	}
	if sb.wrapped {
		if p := bare(sb.hide); p != "" {
			return "bubblewrap does not hide " + p
		}
	} else if err := buildBox(s); err != nil {
		return err.reason()
	}
	sb.ready = wire.Ready{
		Means:   []string{"user namespace", "mount namespace", "process namespace", "network namespace", "seccomp"},
		Network: "off",
	}
	families := []uint32{syscall.AF_UNIX}
	if s.Loopback || !sb.wrapped { // bubblewrap always makes one that works
		families = append(families, syscall.AF_INET, syscall.AF_INET6)
	}
	if s.Loopback {
		sb.ready.Network = "loopback"
	}
	if sb.wrapped {
		sb.ready.Means = append(sb.ready.Means, "bubblewrap")
	}
	if version > 0 {
		handled := uint64(llWrites | llMakeChar | llMakeBlock)
		if version < 2 {
			// Before version 2 moving between directories is refused altogether, which
			// breaks builds, and the mounts are a wall already.
			version = 0
		} else if r := sb.landlock(version, handled, append(writable(s), "/tmp", "/var/tmp", "/dev")); r != "" {
			return r
		}
	}
	sb.calls = sandboxFilter(families...)
	return ""
}

// weak is Landlock and seccomp alone. Its gaps are said, and the caller has
// agreed to them.
func (sb *sandbox) weak(s *wire.Setup, version int) string {
	if !s.Weak {
		return "the system refuses namespaces"
	}
	if version < llTruncates {
		return "the system refuses namespaces, and its Landlock is missing or too old (version " + strconv.Itoa(version) + ", wanted " + strconv.Itoa(llTruncates) + ")"
	}
	hide := []string{"/dev"}
	for _, h := range s.Hide {
		real, err := realPath(h)
		if err == syscall.ENOENT || err == syscall.ENOTDIR || err == syscall.EACCES {
			continue // nothing is there, or not for us
		}
		if err != nil {
			return "hidden path " + h + ": " + err.Error()
		}
		for _, w := range writable(s) {
			if below(real, w) {
				return "without namespaces a path below a writable directory cannot be hidden: " + h
			}
		}
		hide = append(hide, real)
	}
	handled := uint64(llWrites | llMakeChar | llMakeBlock | llReadFile | llReadDir | llExecute)
	if r := sb.landlock(version, handled, writable(s)); r != "" {
		return r
	}
	if err := sb.rules.readable(hide); err != nil {
		return "readable files: " + err.Error()
	}
	for _, dir := range s.Read {
		if err := sb.rules.allow(dir, llReadFile|llExecute); err != nil {
			return "directory " + dir + ": " + err.Error()
		}
	}
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := sb.rules.allow("/dev/"+d, llReadFile|llWriteFile); err != nil && err != syscall.ENOENT {
			return "/dev/" + d + ": " + err.Error()
		}
	}
	sb.calls = sandboxFilter()
	sb.ready.Means = append(sb.ready.Means, "seccomp", "subreaper")
	sb.ready.Network = "off"
	sb.ready.Gaps = []string{
		"modes, owners, times and extended attributes of files outside the workspace can be changed",
		"names of all files, and names and arguments of all processes, can be seen",
	}
	if len(s.Protect) > 0 {
		sb.ready.Gaps = append(sb.ready.Gaps, "protected paths below the workspace can be written")
	}
	if version < llSignals {
		sb.ready.Gaps = append(sb.ready.Gaps, "signals reach all processes of this user")
	}
	return ""
}

// checkPaths finds paths that no profile may hold.
func checkPaths(s *wire.Setup) string {
	l := slices.Concat(s.Write, s.Read, s.Protect, s.Hide)
	if s.Tmp != "" {
		l = append(l, s.Tmp)
	}
	for _, p := range l {
		if !canonical(p) {
			return "not an absolute path without detours: " + strconv.Quote(p)
		}
	}
	return ""
}

// writable lists the directories in which the profile writes, in a box or not.
func writable(s *wire.Setup) []string {
	l := slices.Clone(s.Write)
	if s.Tmp != "" {
		l = append(l, s.Tmp)
	}
	return l
}

func (sb *sandbox) landlock(version int, handled uint64, write []string) string {
	rules, err := newRuleset(version, handled)
	if err != nil {
		return "landlock: " + err.Error()
	}
	for _, w := range write {
		err := rules.allow(w, llWrites|llReadFile|llReadDir|llExecute)
		if err != nil && !(sb.boxed && (err == syscall.ENOENT || err == syscall.EACCES)) { // not seen from in there, so not needed
			return "writable directory " + w + ": " + err.Error()
		}
	}
	sb.rules = rules
	sb.ready.Means = append(sb.ready.Means, "landlock "+strconv.Itoa(version))
	return ""
}

// readable allows to list every directory and to read every file but those in
// hide and what lies below them. Landlock can only allow, so what is not
// hidden is listed piece by piece along the way.
func (r *ruleset) readable(hide []string) error {
	if err := r.allow("/", llReadDir); err != nil {
		return err
	}
	count := 0
	return r.readableBelow("/", hide, &count)
}

func (r *ruleset) readableBelow(dir string, hide []string, count *int) error {
	within := false
	for _, h := range hide {
		if below(dir, h) {
			return nil
		}
		within = within || below(h, dir)
	}
	if *count++; *count > maxMounts {
		return syscall.E2BIG
	}
	if !within {
		err := r.allow(dir, llReadFile|llExecute|llReadDir)
		if err == syscall.ENOENT || err == syscall.EACCES || err == syscall.ELOOP {
			return nil
		}
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil // nobody reads what we cannot
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return err
	}
	for _, name := range names {
		path := dir + "/" + name
		if dir == "/" {
			path = "/" + name
		}
		var st syscall.Stat_t
		if syscall.Lstat(path, &st) != nil || st.Mode&syscall.S_IFMT == syscall.S_IFLNK {
			continue // a rule is for what a link leads to
		}
		if err := r.readableBelow(path, hide, count); err != nil {
			return err
		}
	}
	return nil
}

// refresh hides and protects more paths, and those again whose mount went away:
// a file that somebody outside replaces takes it along.
func (sb *sandbox) refresh(hide, protect []string) error {
	for _, p := range slices.Concat(hide, protect) {
		if !canonical(p) {
			return syscall.EINVAL
		}
	}
	if sb.wrapped {
		if bare(hide) != "" || bare(sb.hide) != "" {
			return syscall.EPERM
		}
		return nil
	}
	sb.hide, sb.protect = union(sb.hide, hide), union(sb.protect, protect)
	if len(sb.hide)+len(sb.protect) > maxMounts {
		return syscall.E2BIG
	}
	for _, p := range sb.protect {
		if err := protectPath(p); err != nil {
			return err
		}
	}
	for _, p := range sb.hide {
		if err := cover(p); err != nil {
			return err
		}
	}
	return nil
}

func union(a, b []string) []string {
	for _, p := range b {
		if !slices.Contains(a, p) {
			a = append(a, p)
		}
	}
	return a
}

// realPath returns what path leads to, without links.
func realPath(path string) (string, error) {
	fd, err := openPath(path, 0)
	if err != nil {
		return "", err
	}
	defer syscall.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// restrict binds the calling thread, and all that it starts, for ever. The
// goroutine must be locked to it.
func (sb *sandbox) restrict() error {
	// The kernel says 20 minus the value. One that is higher already stays.
	if now, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil && sb.nice > 20-now {
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, sb.nice); err != nil {
			return err
		}
	}
	if sb.calls == nil {
		return nil
	}
	if err := dropCaps(); err != nil {
		return err
	}
	if err := prctl(prSetNoNewPrivs, 1, 0); err != nil {
		return err
	}
	if sb.rules != nil {
		if err := sb.rules.restrict(); err != nil {
			return err
		}
		sb.rules.close()
	}
	return sb.calls.install()
}

func canonical(p string) bool {
	if p == "" || p[0] != '/' || p == "/" || p[len(p)-1] == '/' {
		return false
	}
	start := 1
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] == 0 {
			return false
		}
		if i == len(p) || p[i] == '/' {
			if part := p[start:i]; part == "" || part == "." || part == ".." {
				return false
			}
			start = i + 1
		}
	}
	return true
}
