package terminal

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// shell is how a session's shell is prepared.
//
// Marks are the escapes OSC 133 with a nonce. C and D stand around a command and
// have one of its own, so that no output can look like them; P, with the status,
// comes before each prompt, and is what is left when the shell drops a command,
// as it does on ctrl-C; A and B stand around the prompt, which is no output. Marks
// go to the terminal itself, since the shell's own output may be redirected.
//
// A command is read from a file and evaluated at the top level of the shell, not
// in a function, where declarations would be local.
type shell struct {
	kind string // bash, zsh, fish, sh; "" for a program without marks
	path string
	argv []string
	dir  string // of its files
	env  map[string]string
}

// typed is the line that makes the shell take a command. It begins with ^E^U, in
// case that something stands in the line already, and with a blank, which keeps
// it out of histories.
func (s *shell) typed(nonce string) string {
	eval := `\eval "$__wt_c"`
	if s.kind == "fish" {
		eval = "eval $__wt_c"
	}
	return "\x05\x15 __wt " + nonce + ";" + eval + ";__wt_e\n"
}

// Start-up files. What stands between @ is replaced.
const (
	// The marks of bash and zsh: a command begins, it has ended, a prompt follows.
	marks = `__wt() {
	__wt_r=$?
	__wt_k=$1
	__wt_c=$(<"@dir@/$1")
	\builtin printf '\033]133;C;%s\007' "$1" >/dev/tty
	return "$__wt_r"
}
__wt_e() {
	{
		__wt_r=$?
		unset __wt_c
		\builtin printf '\033]133;D;%s;%s\007' "$__wt_r" "${__wt_k-}" >/dev/tty
		__wt_i
	} 2>/dev/null
	return "$__wt_r"
}
__wt_p() {
	{
		__wt_r=$?
		unset __wt_c
		\builtin printf '\033]133;P;%s;@nonce@\007' "$__wt_r" >/dev/tty
	} 2>/dev/null
	return "$__wt_r"
}
`
	bashRC = `@startup@
@fixed@
set +H
bind 'set enable-bracketed-paste off' 2>/dev/null
HISTCONTROL=ignorespace
unset HISTFILE
` + marks + `__wt_i() {
	PROMPT_COMMAND=__wt_p
	PS0= PS2=
	case ${PS1-} in
	*'133;B;@nonce@'*) ;;
	*) PS1='\[\e]133;A;@nonce@\a\]\w \$ \[\e]133;B;@nonce@\a\]' ;;
	esac
}
__wt_i
`
	zshRC = `ZDOTDIR=$HOME
@startup@
@fixed@
unset zle_bracketed_paste
setopt interactive_comments hist_ignore_space
unsetopt prompt_sp prompt_cr bang_hist
HISTFILE= RPS1= RPROMPT=
` + marks + `__wt_i() {
	precmd_functions=(__wt_p)
	unsetopt prompt_sp prompt_cr
	case ${PS1-} in
	*'133;B;@nonce@'*) ;;
	*) PS1=$'%{\e]133;A;@nonce@\a%}%~ %# %{\e]133;B;@nonce@\a%}' ;;
	esac
	PS2=
}
__wt_i
`
	fishRC = `@fixed@
set -g fish_greeting
set -g fish_private_mode 1
set -g fish_autosuggestion_enabled 0
function __wt
	set -g __wt_r $status
	set -g __wt_k $argv[1]
	set -g __wt_c (command cat "@dir@/$argv[1]" | string collect -N)
	builtin printf '\033]133;C;%s\007' $argv[1] >/dev/tty
	return $__wt_r
end
function __wt_e
	set -g __wt_r $status
	set -e __wt_c
	builtin printf '\033]133;D;%s;%s\007' $__wt_r $__wt_k >/dev/tty
	__wt_i
	return $__wt_r
end
function __wt_i
	function fish_prompt
		set -g __wt_r $status
		builtin printf '\033]133;P;%s;@nonce@\007\033]133;A;@nonce@\007> \033]133;B;@nonce@\007' $__wt_r
	end
	function fish_right_prompt; end
	function fish_title; end
	function fish_mode_prompt; end
end
__wt_i
`
	// The marks of sh stand in its prompt as they are; it puts the status in.
	shRC = `@startup@
@fixed@
__wt() {
	__wt_r=$?
	__wt_k=$1
	__wt_c=$(command -p cat "@dir@/$1")
	command printf '\033]133;C;%s\007' "$1" >/dev/tty
	return "$__wt_r"
}
__wt_e() {
	{
		__wt_r=$?
		unset __wt_c
		command printf '\033]133;D;%s;%s\007' "$__wt_r" "${__wt_k-}" >/dev/tty
		__wt_i
	} 2>/dev/null
	return "$__wt_r"
}
__wt_i() {
	PS2=
	case ${PS1-} in
	*'133;B;@nonce@'*) ;;
	*) PS1='@esc@]133;P;$?;@nonce@@bel@@esc@]133;A;@nonce@@bel@$ @esc@]133;B;@nonce@@bel@' ;;
	esac
}
__wt_i
`
)

// newShell prepares a shell. env is what the session's programs get.
func (m *Manager) newShell(name, nonce string, env map[string]string) (*shell, error) {
	if name == "" {
		name = "bash"
	}
	path := name
	if !strings.ContainsRune(name, '/') {
		if path = m.program(name); path == "" {
			return nil, tool.Errorf(tool.NotAvailable, "there is no shell %s here", tool.QuotePath(clip(name))).
				WithNext("leave shell out for bash, or name one that is installed")
		}
	}
	if !filepath.IsAbs(path) || path != filepath.Clean(path) {
		return nil, tool.Errorf(tool.InvalidArguments, "shell: %s is neither a name nor a full path", tool.QuotePath(clip(name)))
	}
	if !runnable(path) {
		return nil, tool.PathErrorf(tool.NotFound, clip(name), "no program of this name can be started").
			WithNext("leave shell out for bash, or name one that is installed")
	}
	s := &shell{path: path, argv: []string{filepath.Base(path)}, env: map[string]string{}}
	switch filepath.Base(path) {
	case "bash":
		s.kind = "bash"
	case "zsh":
		s.kind = "zsh"
	case "sh", "dash", "ash":
		s.kind = "sh"
	case "fish":
		s.kind = "fish"
	default:
		return s, nil
	}
	s.dir = filepath.Join(m.dir, commandDir, random(26))
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	var text, file string
	startup := map[string]string{"bash": "$HOME/.bashrc", "zsh": "$HOME/.zshrc"}[s.kind]
	switch s.kind {
	case "bash":
		text, file = bashRC, "rc"
		s.argv = append(s.argv, "--noprofile", "--rcfile", filepath.Join(s.dir, file), "-i")
	case "zsh":
		text, file = zshRC, ".zshrc"
		s.argv = append(s.argv, "-o", "no_global_rcs", "-i")
		s.env["ZDOTDIR"] = s.dir
	case "fish": // its configuration is read before the command
		text, file = fishRC, "rc"
		if !m.o.Startup {
			s.argv = append(s.argv, "--no-config")
		}
		s.argv = append(s.argv, "--init-command", "source "+filepath.Join(s.dir, file), "-i")
	case "sh":
		text, file = shRC, "rc"
		s.argv = append(s.argv, "-i")
		s.env["ENV"] = filepath.Join(s.dir, file)
	}
	read := ""
	if m.o.Startup && startup != "" {
		read = `if [ -r "` + startup + `" ]; then . "` + startup + `"; fi`
	}
	var set strings.Builder
	for _, name := range settings(env) {
		if s.kind == "fish" {
			set.WriteString("set -gx " + name + " '" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(env[name]) + "'\n")
			continue
		}
		set.WriteString("export " + name + "=" + quoted(env[name]) + "\n")
	}
	if s.kind == "sh" {
		set.WriteString("unset ENV\n") // no shell below reads the file
	}
	text = strings.NewReplacer("@startup@", read, "@fixed@", set.String(), "@dir@", s.dir, "@nonce@", nonce, "@esc@", "\x1b", "@bel@", "\a").Replace(text)
	if err := os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// settings are the variables that are set once more after the user's start-up
// file, which tends to put editors and pagers back.
func settings(env map[string]string) []string {
	var l []string
	for name := range env {
		if _, ok := fixed[name]; ok && name != "HISTFILE" {
			l = append(l, name)
		}
	}
	return sorted(l)
}

// started takes away what the shell has read by now; it holds the nonce.
func (s *shell) started() {
	for _, name := range []string{"rc", ".zshrc"} {
		if s.dir != "" {
			os.Remove(filepath.Join(s.dir, name))
		}
	}
}

func (s *shell) remove() {
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// program looks a name up in the directories for shells.
func (m *Manager) program(name string) string {
	for _, dir := range m.o.Path {
		path := filepath.Join(dir, name)
		if filepath.IsAbs(dir) && runnable(path) {
			return path
		}
	}
	return ""
}

func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
