//go:build linux && (amd64 || arm64)

package helper

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

// Where the system lets bubblewrap make namespaces, and us not (it may be set up
// to, or be set-user-id), a reaper is started by it. It lays out the same view
// as buildBox, but once and for ever: the reaper inside cannot mount, so it is
// not used for a second tree, and Refresh can only tell what is bare.

// wrappers are the places of bubblewrap; the server's PATH is not asked.
var wrappers = []string{"/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"}

// wrappedHelper is where the program stands in the view.
const wrappedHelper = "/run/wasmtools-helper"

// maxCovers bounds the hidden files: each takes a descriptor.
const maxCovers = 500

// wrapArgs returns bubblewrap's arguments before the program to run, and how
// many descriptors, from first on and all at their end, it wants.
func wrapArgs(s *wire.Setup, program string, first int) (args []string, covers int, err error) {
	add := func(a ...string) { args = append(args, a...) }
	add("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--cap-drop", "ALL", "--ro-bind", "/", "/")
	add("--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm", "--proc", "/proc", "--remount-ro", "/proc")
	for _, t := range []string{"/tmp", "/var/tmp"} {
		switch {
		case !isDir(t):
		case s.Tmp != "":
			add("--bind", s.Tmp, t)
		default:
			add("--perms", "1777", "--tmpfs", t)
		}
	}
	add("--tmpfs", "/run", "--ro-bind", program, wrappedHelper)
	for _, dir := range keptOfRun {
		add("--ro-bind-try", dir, dir)
	}
	var places []place
	for _, p := range s.Write {
		places = append(places, place{p, placeShow, 1})
	}
	for _, p := range s.Read {
		places = append(places, place{p, placeShow, 0})
	}
	for _, p := range s.Protect {
		places = append(places, place{p, placeProtect, 0})
	}
	for _, p := range slices.Concat(s.Hide, kernelFolders) {
		places = append(places, place{p, placeHide, 0})
	}
	slices.SortStableFunc(places, func(a, b place) int { return depth(a.path) - depth(b.path) })
	var readOnly []string
	for _, p := range places {
		if p.kind != placeHide {
			// As in copyTree and protectPath: no link on the way.
			fd, err := openReal(p.path)
			if err != nil && p.kind == placeProtect {
				continue
			}
			if err != nil {
				return nil, 0, err
			}
			syscall.Close(fd)
		}
		switch {
		case p.kind == placeShow && p.tree == 1:
			add("--bind", p.path, p.path)
		case p.kind != placeHide:
			add("--ro-bind", p.path, p.path)
		default:
			var st syscall.Stat_t
			if syscall.Stat(p.path, &st) != nil {
				continue // not there, or not for us
			}
			if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
				mode := "0000"
				if slices.ContainsFunc(slices.Concat(s.Write, s.Read), func(w string) bool { return below(w, p.path) }) {
					mode = "0711"
				}
				add("--perms", mode, "--tmpfs", p.path)
				readOnly = append(readOnly, p.path)
				continue
			}
			if covers++; covers > maxCovers {
				return nil, 0, syscall.E2BIG
			}
			add("--perms", "0000", "--ro-bind-data", strconv.Itoa(first+covers-1), p.path)
		}
	}
	for _, p := range append(readOnly, "/run") {
		add("--remount-ro", p)
	}
	add("--chdir", "/")
	return args, covers, nil
}

// wrapped says what is started for a KindWrapped, with the descriptors that
// follow the helper's own four.
func wrapped(s wire.Spawn, null int) (path string, args []string, more []uintptr, err error) {
	var setup wire.Setup
	if setup.Decode([]byte(s.Setup)) != nil || checkPaths(&setup) != "" {
		return "", nil, nil, syscall.EINVAL
	}
	i := slices.IndexFunc(wrappers, func(w string) bool { return syscall.Access(w, 1) == nil })
	if i < 0 {
		return "", nil, nil, syscall.ENOENT
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return "", nil, nil, syscall.ENOENT
	}
	args, covers, err := wrapArgs(&setup, program, Socket+1)
	if err != nil {
		return "", nil, nil, err
	}
	for range covers {
		more = append(more, uintptr(null))
	}
	args = slices.Concat([]string{"wasmtools-helper"}, args, []string{"--", wrappedHelper, Arg, RoleWrapped})
	return wrappers[i], args, more, nil
}

// bare finds a hidden path that can be seen.
func bare(hide []string) string {
	for _, p := range hide {
		fd, err := syscall.Open(p, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var st syscall.Stat_t
		err = syscall.Fstat(fd, &st)
		syscall.Close(fd)
		if err != nil {
			continue
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			if st.Size > 0 {
				return p
			}
			continue
		}
		dir, err := os.Open(p)
		if err != nil {
			continue
		}
		names, _ := dir.Readdirnames(1)
		dir.Close()
		if len(names) > 0 {
			return p
		}
	}
	return ""
}
