package selftest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// fileSystems names those that people work on, by the numbers of statfs(2).
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", unix.F2FS_SUPER_MAGIC: "f2fs", unix.MSDOS_SUPER_MAGIC: "fat",
	0x2fc12fc1: "zfs", 0xca451a4e: "bcachefs",
	unix.NFS_SUPER_MAGIC: "nfs", unix.CIFS_SUPER_MAGIC: "cifs", unix.SMB2_SUPER_MAGIC: "smb2", unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "fuse", unix.AFS_SUPER_MAGIC: "afs",
}

// shared are those that other machines or programs may change without the kernel
// being told.
var shared = map[string]bool{"nfs": true, "cifs": true, "smb2": true, "9p": true, "fuse": true, "afs": true}

func fileSystem(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	kind := int64(uint32(st.Type))
	name := fileSystems[kind]
	switch {
	case name == "":
		return fmt.Sprintf("of kind %#x", kind)
	case shared[name]:
		return name + "; what other machines change in it is seen by reading, not told by the kernel"
	}
	return name
}
