package main

import (
	"fmt"
	"strings"
	"testing"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
)

const guide = `---
title: x
---
# Guide

Intro.

## Install #

Run it.

` + "```sh\n# not a heading\n## Install\n```" + `

### On Linux

    # indented code

~~~~
~~~
# still code
~~~~

Setext One
==========

text

Setext *Two*
---

- item
---

## C#

## Use ` + "`wt`" + `

## install

end
`

const goFile = `package p

import "x"

// A does a.
// It is good.
//
//go:noinline
func A(b B) C {
	return A(b)
}

type B struct {
	A int
}

func (b *B) Run() {}

func (c C) Run() {
	A()
}

const (
	C1 = iota
)

var D = map[string]int{
	"x": 1,
}
`

const pyFile = `import os

@decorator
def outer(
    a,
):
    """doc"""

    def inner():
        pass

    return a


class K(Base):
    x = 1

LIMIT = 3
`

const cFile = `#include <x.h>

/*
 * Adds.
 */
static int
add_one(int a)
{
	return a;
}

int main(int argc, char **argv) {
#ifdef X
	add_one(1);
#endif
	return 0;
}

int proto(void);
`

func TestSection(t *testing.T) {
	for _, c := range []struct {
		file, heading string
		first, last   int // 0: an error
	}{
		{"a.md", "Guide", 4, 25},
		{"a.md", "# Guide", 4, 25},
		{"a.md", "Install", 8, 25}, // exact before the other spelling
		{"a.md", "On Linux", 17, 25},
		{"a.md", "ON LINUX", 17, 25},
		{"a.md", "install", 41, 43},
		{"a.md", "INSTALL", 0, -2},
		{"a.md", "not a heading", 0, 0},
		{"a.md", "indented code", 0, 0},
		{"a.md", "still code", 0, 0},
		{"a.md", "title: x", 0, 0},
		{"a.md", "Setext One", 26, 43},
		{"a.md", "setext two", 31, 36},
		{"a.md", "C#", 37, 38},
		{"a.md", "use wt", 39, 40},
		{"a.md", "- item", 0, 0},
		{"p.go", "A", 5, 11},
		{"p.go", "B", 13, 15},
		{"p.go", "B.Run", 17, 17},
		{"p.go", "(*B).Run", 17, 17},
		{"p.go", "C.Run", 19, 21},
		{"p.go", "Run", 0, -2},
		{"p.go", "C", 0, 0},
		{"p.go", "D", 27, 29},
		{"p.go", "x", 0, 0},
		{"k.py", "outer", 3, 12},
		{"k.py", "outer()", 3, 12},
		{"k.py", "inner", 0, 0},
		{"k.py", "K", 15, 16},
		{"k.py", "Base", 0, 0},
		{"k.py", "LIMIT", 18, 18},
		{"m.c", "main", 12, 17},
		{"m.c", "proto", 0, 0},
		{"m.c", "add_one", 3, 10},
		{"x.toml", "dependencies", 1, 1},
		{"x.rs", "Two", 0, -2},
		{"x.sh", "deploy", 1, 3},
		{"x.ts", "Props", 1, 3},
		{"x.ts", "load", 5, 7},
		{"README", "Title", 1, 1},
	} {
		t.Run(c.file+"/"+c.heading, func(t *testing.T) {
			h := guesttest.New()
			h.Put("a.md", guide)
			h.Put("p.go", goFile)
			h.Put("k.py", pyFile)
			h.Put("m.c", cFile)
			h.Put("x.toml", "[dependencies]\na = 1\n")
			h.Put("x.rs", "pub struct Two;\n\nimpl<T> Show for Two {\n    x\n}\n")
			h.Put("x.sh", "deploy() {\n  ls\n}\n")
			h.Put("x.ts", "export interface Props {\n  a: string\n}\n\nexport default async function load(p: Props) {\n  return p\n}\n")
			h.Put("README", "# Title\n")
			r := h.Call("read_open", args("path", c.file, "selection", obj{"section": obj{"heading": c.heading}}))
			switch {
			case c.last < 0:
				wantError(t, r, guest.NotUnique, fmt.Sprint(-c.last)+" sections", "line ")
			case c.first == 0:
				wantError(t, r, guest.InvalidArguments, "there is no section")
			default:
				d := r.Details()
				if r.IsError || d["start"] != float64(c.first) || d["end"] != float64(c.last) {
					t.Errorf("lines %v-%v, want %d-%d:\n%s", d["start"], d["end"], c.first, c.last, r.Text())
				}
			}
		})
	}
}

// TestSectionErrorsAreBounded: a file of nothing but headings, a name without end.
func TestSectionErrorsAreBounded(t *testing.T) {
	h := guesttest.New()
	h.Put("a.md", strings.Repeat("# "+strings.Repeat("x", 500)+"\n", 5000))
	for _, name := range []string{strings.Repeat("x", 500), strings.Repeat("é", 100000)} {
		r := h.Call("read_open", args("path", "a.md", "selection", obj{"section": obj{"heading": name}}))
		if n := len(r.Text()); !r.IsError || n > 8000 {
			t.Errorf("error %v of %d bytes; at most 8000 are allowed", r.IsError, n)
		}
	}
	h.Put("big.md", strings.Repeat("x", wholeBytes+1))
	wantError(t, h.Call("read_open", args("path", "big.md", "selection", obj{"section": obj{"heading": "x"}})), guest.TooLarge)
}

// FuzzSection: whatever the text, a section is a range of its lines.
func FuzzSection(f *testing.F) {
	f.Add(guide, "Install")
	f.Add(goFile, "A")
	f.Add(cFile, "main")
	f.Add("# #\n---\n===\n", "#")
	f.Fuzz(func(t *testing.T, text, name string) {
		all := splitLines(text)
		known := headings(all)
		for _, spans := range [][]span{findHeading(known, len(all), name), findSymbol(all, name, "x.c")} {
			for _, s := range spans {
				if s.first < 1 || s.at < s.first || s.last < s.at || s.last > len(all) {
					t.Fatalf("section %q is %+v of %d lines", name, s, len(all))
				}
			}
		}
	})
}
