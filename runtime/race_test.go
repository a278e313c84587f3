//go:build race

package runtime

// underRace: the detector's own memory and time are in all that is measured.
const underRace = true
