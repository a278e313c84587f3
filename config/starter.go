package config

import (
	_ "embed"
	"slices"
)

//go:embed starter.toml
var starter []byte

// Starter is a file of rules for everyday development, with its examples.
func Starter() []byte { return slices.Clone(starter) }
