package artifact

const openFlags = 0
