package channel

import "strconv"

// address is how a socket of the folder is named to bind and connect: by the
// opened folder, since such a name may hold 107 bytes only, and so that nobody
// can put another folder in its place.
func (f *folder) address(name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(f.file.Fd())) + "/" + name
}
