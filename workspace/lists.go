package workspace

// The built-in lists. docs/security.md shows them to people, and a test holds the
// two together. A glob without a slash fits a name anywhere; see [Rule].

// listed is one row: a rule's name, its globs, and names that it does not mean.
type listed struct {
	name   string
	globs  []string
	except []string
	why    string
}

// secretPaths are not read, listed, searched or changed by any call.
var secretPaths = []listed{
	{"env", []string{".env*"}, []string{".env.example", ".env.sample"}, "environment files hold passwords and tokens"},
	{"key", []string{
		"id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_xmss",
		"*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pk8", "*.ppk", "*.jks", "*.keystore", "*.kdbx", "*.agekey",
		".ssh", ".gnupg", ".password-store",
	}, nil, "private keys, alone and in their folders"},
	{"npm", []string{".npmrc"}, nil, "registry tokens"},
	{"cloud", []string{
		".aws", ".azure", ".oci", ".kube", ".gcloud", "**/.config/gcloud", "application_default_credentials.json",
		".boto", ".s3cfg", ".databrickscfg", ".terraformrc", "**/.terraform.d/credentials.tfrc.json",
	}, nil, "credential folders of cloud providers"},
	{"credentials", []string{
		".netrc", "_netrc", ".git-credentials", "**/.config/git/credentials", ".pgpass", ".my.cnf", ".pypirc", ".vault-token",
		".dockercfg", "**/.docker/config.json", "**/.cargo/credentials", "**/.cargo/credentials.toml",
		"**/.gem/credentials", "**/.config/gh/hosts.yml", "**/.config/rclone/rclone.conf", ".htpasswd",
	}, nil, "passwords and tokens that programs keep for their users"},
}

// protectedPaths make something run later, outside any sandbox, or decide what
// is allowed. Changing them takes a yes that names them.
var protectedPaths = []listed{
	{"git", []string{".git", ".gitmodules", ".gitattributes", ".gitconfig", "**/.config/git"}, nil, "git runs hooks, filters and commands that stand there"},
	{"vcs", []string{".hg", ".hgrc", ".svn", ".jj", ".bzr", "_darcs", ".pijul"}, nil, "the innards of other version control"},
	{"hooks", []string{
		".husky", ".huskyrc", ".githooks", ".lefthook", ".lefthook-local", "lefthook.yml", ".lefthook.yml", "lefthook-local.yml",
		".pre-commit-config.yaml", ".pre-commit-hooks.yaml", ".overcommit.yml", ".git-hooks",
	}, nil, "run at the next commit, checkout or push"},
	{"editor", []string{
		".vscode", "*.code-workspace", ".idea", ".devcontainer", ".devcontainer.json", ".fleet", ".zed", ".vs", ".nova",
		"*.sublime-project", ".exrc", ".vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".dir-locals-2.el", ".emacs", ".emacs.d",
	}, nil, "editors run their tasks and settings when the folder is opened"},
	{"agent", []string{
		".cursor", ".claude", ".claude.json", ".codex", ".agents", ".mcp.json", ".gemini", ".windsurf",
		".continue", ".kiro", ".roo", ".roomodes", ".opencode", "opencode.json", ".crush", ".crush.json",
		".aider.conf.yml", ".amazonq", ".junie", ".trae", ".openhands",
		"CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", "AGENT.md", "GEMINI.md", "QWEN.md",
		".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".goosehints",
		"**/.github/copilot-instructions.md", "**/.github/instructions", "**/.github/prompts", "**/.github/agents", "**/.github/chatmodes",
	}, nil, "what agents may do, what they are told before anybody asks them, and which servers and hooks they start"},
	{"shell", []string{
		".envrc", "mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml", ".mise", "**/.config/mise", "**/.config/mise.toml", ".tool-versions", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc",
		".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout",
		"config.fish", "**/.config/fish", "**/fish/conf.d", ".xinitrc", ".xsession", ".xprofile", ".pam_environment", "**/.config/autostart",
		"**/.config/systemd", "**/.config/environment.d", ".pythonstartup", ".pdbrc", ".gdbinit", ".lldbinit",
	}, nil, "read by the next shell, debugger or login, or when it enters the folder"},
	{"packages", []string{".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.js", "bunfig.toml", "**/.cargo/config", "**/.cargo/config.toml", "pip.conf"}, nil, "package managers take commands and sources from there"},
	{"wasmtools", []string{"wasmtools.toml", "wasmtools.lock", ".wasmtools"}, nil, "our own configuration"},
}
