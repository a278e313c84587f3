package terminal

import (
	"slices"
	"strings"
)

// commanding are programs that do what they are told in their input: shells,
// interpreters, what leads to another machine or user, debuggers, clients of
// databases, and editors and pagers, which start programs on demand. Versions at
// the end of a name are left out.
var commanding = strings.Fields(`
	bash sh dash zsh fish ksh mksh ash tcsh csh busybox nu elvish xonsh pwsh
	python pypy ipython bpython node deno bun irb ruby perl php lua luajit r rscript julia ghci ghc jshell java scala kotlin
	groovy erl iex elixir beam.smp guile sbcl clisp racket ocaml utop tclsh wish expect octave octave-cli gnuplot maxima gp sage bc dc
	awk gawk mawk xargs parallel env timeout nohup setsid script watch strace ltrace unshare nsenter chroot
	ssh telnet nc ncat netcat socat mosh-client rsh rlogin sudo su doas pkexec run0 login runuser setpriv
	docker docker-compose podman nerdctl kubectl oc crictl ctr lxc incus machinectl virsh vagrant
	gdb lldb dlv rr jdb pdb radare r2
	psql mysql mariadb sqlite redis-cli valkey-cli mongo mongosh sqlplus cqlsh clickhouse-client clickhouse duckdb influx
	vi vim nvim view vimdiff ex ed emacs emacs-nox emacs-gtk nano pico micro helix hx joe mcedit mc ranger nnn
	less more most man info lynx w3m tig
	tmux screen zellij byobu dtach abduco ftp sftp lftp mutt neomutt make gmake`)

// takesCommands tells whether a program's name, of its file or as the kernel
// calls it, is one of those.
func takesCommands(name string) bool {
	name = strings.ToLower(strings.TrimPrefix(name, "-"))
	short := strings.TrimRight(name, "0123456789.-")
	first, _, _ := strings.Cut(name, ".")
	return slices.ContainsFunc([]string{name, short, first}, func(n string) bool { return slices.Contains(commanding, n) })
}

// harmlessKeys move about, leave, and say yes; in a program that takes commands
// Enter runs what stands there.
var harmlessKeys = strings.Fields("up down left right home end pageup pagedown escape esc tab backtab c-c enter return space backspace")

// answers are texts that answer a question and do nothing else.
var answers = strings.Fields("y n yes no q")

// isAnswer tells input that only answers a question.
func isAnswer(text string, keys []string) bool {
	if text != "" {
		word := strings.ToLower(strings.Trim(text, "\r\n"))
		return word == "" || slices.Contains(answers, word)
	}
	for _, k := range keys {
		if !slices.Contains(harmlessKeys, strings.ToLower(k)) {
			return false
		}
	}
	return len(keys) > 0
}

// onlyInterrupts tells input that is nothing but ctrl-C, which is safe anywhere.
func onlyInterrupts(keys []string) bool {
	for _, k := range keys {
		if strings.ToLower(k) != "c-c" {
			return false
		}
	}
	return len(keys) > 0
}
