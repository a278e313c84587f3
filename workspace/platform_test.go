package workspace

import goruntime "runtime"

const isLinux = goruntime.GOOS == "linux"
