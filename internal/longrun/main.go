// Command longrun is the long test tier: it runs what is too slow for every
// change (repetitions, storms, fuzzing), and writes a report with commit,
// machine and figures. It is started by .ci/long.
//
// A job that fails does not end the run: the report says which did, and the
// exit code that one did. The report is written anew after every job.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const modulePath = "github.com/wasmtools/wasmtools/"

type report struct {
	Commit  string    `json:"commit"`
	Dirty   bool      `json:"dirty,omitempty"`
	Started time.Time `json:"started"`
	Minutes float64   `json:"minutes"`
	Machine machine   `json:"machine"`
	Passed  bool      `json:"passed"`
	Jobs    []job     `json:"jobs"`
}

type machine struct {
	OS, Arch, Go, Kernel string
	CPUs                 int
}

type job struct {
	Name       string   `json:"name"`
	Commit     string   `json:"commit"` // that it ran on
	Env        string   `json:"env,omitempty"`
	Command    string   `json:"command"`
	Seconds    float64  `json:"seconds"`
	Passed     bool     `json:"passed"`
	Executions int64    `json:"executions,omitempty"` // of a fuzz target
	Corpus     int64    `json:"interesting,omitempty"`
	Figures    []string `json:"figures,omitempty"` // what the tests logged
	Output     string   `json:"output,omitempty"`  // the tail, of a failure

	plant *plant // runs in a copy with this bug, and has to find it
}

// repetitions are test runs beyond what every change pays for.
var repetitions = []job{
	{Name: "file system races, 20 times", Command: "go test -count=20 -timeout 60m -run TestFSCases/race ./cmd/wasmtools"},
	{Name: "commits killed and failing at each of their steps, 20 times", Command: "go test -count=20 -timeout 60m -run TestKilledInCommit|TestFaults|TestUndo ./workspace"},
	{Name: "a tree of a million files, 100,000 of them in one directory, and one of 4 GiB", Env: "WASMTOOLS_LONG=1", Command: "go test -count=1 -timeout 60m -v -run TestBigTree ."},
	{Name: "hostile guests, 10,000 calls each", Env: "WASMTOOLS_HOSTILE=10000", Command: "go test -count=1 -timeout 300m -v -run TestHostileLeavesNothing ./runtime"},
	{Name: "10^6 hand-overs with late stops", Env: "WASMTOOLS_LONG=1", Command: "go test -count=1 -timeout 60m -v -run TestLateStops ./runtime"},
	{Name: "rewriter against the engine, everything", Env: "WASMTOOLS_LONG=1", Command: "go test -count=1 -timeout 60m -v -run TestSpec|TestModuleCache ./runtime/rewrite"},
	{Name: "200 processes killed in a storm of calls", Env: "WASMTOOLS_LONG=1", Command: "go test -count=1 -timeout 60m -v -run TestKilledStorm ."},
	{Name: "200 processes killed while they record", Env: "WASMTOOLS_LONG=1", Command: "go test -count=1 -timeout 60m -v -run TestKillStorm ./evidence"},
	{Name: "2,000 process trees leave nothing", Env: "WASMTOOLS_LONG=1", Command: "go test -count=1 -timeout 60m -v -run TestNothingIsLeft ./internal/proctree"},
	{Name: "2,000 processes and 200 sessions of the terminal leave nothing", Env: "WASMTOOLS_LONG=1", Command: "go test -count=1 -timeout 90m -v -run TestNothingIsLeft|TestKilledServer ./terminal"},
	{Name: "everything about terminals, 5 times on a busy machine", Env: "WASMTOOLS_BUSY=8", Command: "go test -count=5 -timeout 60m ./terminal"},
	{Name: "bug reports about terminals, 10 times under the race detector", Command: "go test -race -count=10 -timeout 60m -run TestCases ./terminal"},
}

// alone are packages in which nothing runs side by side, and which take half an
// hour under the race detector.
var alone = []string{modulePath + "runtime/rewrite", modulePath + "internal/guestbuild"}

func raceJob() job {
	var packages []string
	for _, p := range strings.Fields(output("go", "list", "./...")) {
		if !slices.Contains(alone, p) {
			packages = append(packages, "./"+strings.TrimPrefix(p+"/", modulePath))
		}
	}
	return job{Name: "everything that runs side by side, under the race detector",
		Command: "go test -race -short -count=1 -timeout 60m " + strings.Join(packages, " ")}
}

func main() {
	log.SetFlags(0)
	out := flag.String("o", "long.json", "where the report goes")
	perTarget := flag.Duration("fuzz", 10*time.Second, "time of each fuzz target")
	parsers := flag.String("parsers", "2000000x", "time or executions of each fuzz target of the module parsers")
	only := flag.String("run", "", "only jobs whose name matches this regexp")
	keep := flag.Bool("keep", false, "keep the jobs of the report that this run does not repeat")
	list := flag.Bool("list", false, "print the jobs and run none")
	flag.Parse()
	filter, err := regexp.Compile(*only)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var jobs []job
	for _, j := range allJobs(*perTarget, *parsers) {
		if filter.MatchString(j.Name) {
			jobs = append(jobs, j)
		}
	}
	if *list {
		for _, j := range jobs {
			fmt.Printf("%s\n\t%s %s\n", j.Name, j.Env, j.Command)
		}
		return
	}
	r := report{Started: time.Now().UTC().Truncate(time.Second), Passed: true, Machine: thisMachine()}
	r.Commit = output("git", "rev-parse", "HEAD")
	var before []job
	if *keep {
		before = kept(*out, jobs)
	}
	r.Dirty = output("git", "status", "--porcelain", "--untracked-files=no") != ""
	for i, j := range jobs {
		log.Printf("== %d of %d, minute %.0f: %s", i+1, len(jobs), time.Since(r.Started).Minutes(), j.Name)
		if j.plant != nil {
			j.runPlanted(ctx)
		} else {
			j.run(ctx)
		}
		if ctx.Err() != nil {
			log.Fatal("interrupted; the report has the jobs before")
		}
		log.Printf("   passed=%v in %.0f s, %d executions", j.Passed, j.Seconds, j.Executions)
		j.Commit = r.Commit
		r.Passed = r.Passed && j.Passed
		r.Jobs = append(r.Jobs, j)
		r.Minutes = time.Since(r.Started).Minutes()
		whole := r
		whole.Jobs = append(slices.Clone(before), r.Jobs...)
		whole.Passed = !slices.ContainsFunc(whole.Jobs, func(j job) bool { return !j.Passed })
		if err := whole.write(*out); err != nil {
			log.Fatal(err)
		}
	}
	if !r.Passed {
		log.Fatal("FAIL: see ", *out)
	}
}

// kept are the jobs of an earlier report that are not among now.
func kept(path string, now []job) []job {
	var r report
	p, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(p, &r)
	}
	if err != nil {
		log.Fatal(err)
	}
	for i := range r.Jobs {
		if r.Jobs[i].Commit == "" {
			r.Jobs[i].Commit = r.Commit
		}
	}
	return slices.DeleteFunc(r.Jobs, func(old job) bool {
		return slices.ContainsFunc(now, func(j job) bool { return j.Name == old.Name })
	})
}

func (r report) write(path string) error {
	p, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(p, '\n'), 0o644)
}

// treeTime is how long the attack on the file tree runs, which is slow (some tens
// of trees a second) and finds the rarest things.
const treeTime = "30m"

// allJobs lists what there is to run: every fuzz target of the module, each for
// the same time, but for those that read a stranger's bytes first and the one that
// attacks the file tree.
func allJobs(perTarget time.Duration, parsers string) []job {
	jobs := append(slices.Clone(repetitions), raceJob())
	for _, p := range plants {
		jobs = append(jobs, p.job())
	}
	for _, t := range fuzzTargets() {
		howLong := perTarget.String()
		if strings.HasSuffix(t.pkg, "/rewrite") || strings.HasSuffix(t.pkg, "/manifest") {
			howLong = parsers
		}
		if t.name == "FuzzTree" {
			howLong = treeTime
		}
		jobs = append(jobs, job{
			Name:    "fuzz " + strings.TrimPrefix(t.pkg, modulePath) + " " + t.name,
			Command: fmt.Sprintf("go test -run ^$ -fuzz ^%s$ -fuzztime %s -fuzzminimizetime 1s -parallel 2 %s", t.name, howLong, t.pkg),
		})
	}
	return jobs
}

var (
	execs       = regexp.MustCompile(`execs: (\d+)`)
	interesting = regexp.MustCompile(`total: (\d+)\)`)
	logged      = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.*)$`)
)

// maxFigures is how many lines of a test's log the report keeps.
const maxFigures = 40

func (j *job) run(ctx context.Context) {
	text, err := j.execute(ctx, "")
	if j.Passed = err == nil; !j.Passed {
		j.tail(text)
		return
	}
	for _, m := range logged.FindAllStringSubmatch(text, maxFigures) {
		j.Figures = append(j.Figures, m[1])
	}
}

// execute runs the job's command in dir and returns what it printed.
func (j *job) execute(ctx context.Context, dir string) (string, error) {
	args := strings.Fields(j.Command)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1") // for the race detector
	if j.Env != "" {
		cmd.Env = append(cmd.Env, strings.Fields(j.Env)...)
	}
	buf := &progress{}
	cmd.Stdout, cmd.Stderr = buf, buf
	began := time.Now()
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		fmt.Fprintln(buf, err)
	}
	j.Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
	text := buf.String()
	if m := execs.FindAllStringSubmatch(text, -1); m != nil {
		j.Executions, _ = strconv.ParseInt(m[len(m)-1][1], 10, 64)
	}
	if m := interesting.FindAllStringSubmatch(text, -1); m != nil {
		j.Corpus, _ = strconv.ParseInt(m[len(m)-1][1], 10, 64)
	}
	return text, err
}

// tail keeps the end of a failure's output.
func (j *job) tail(text string) {
	j.Output = text[max(0, len(text)-4000):]
	log.Print(j.Output)
}

// progress keeps what a command prints and shows a line of it every half minute.
type progress struct {
	mu    sync.Mutex
	all   bytes.Buffer
	shown time.Time
}

func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown.IsZero() {
		p.shown = time.Now()
	}
	if time.Since(p.shown) > 30*time.Second {
		p.shown = time.Now()
		line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
		log.Printf("   %.120s", line)
	}
	return p.all.Write(b)
}

func (p *progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

type target struct{ pkg, name string }

// fuzzTargets finds every fuzz target of the module, in the sources: a package
// that does not compile is one failure and not the end.
func fuzzTargets() []target {
	var ts []target
	for line := range strings.Lines(output("go", "list", "-f", `{{.ImportPath}} {{.Dir}} {{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}`, "./...")) {
		f := strings.Fields(line)
		for _, file := range f[2:] {
			src, err := os.ReadFile(filepath.Join(f[1], file))
			if err != nil {
				log.Fatal(err)
			}
			for _, m := range fuzzFunc.FindAllSubmatch(src, -1) {
				ts = append(ts, target{f[0], string(m[1])})
			}
		}
	}
	return ts
}

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

func thisMachine() machine {
	return machine{goruntime.GOOS, goruntime.GOARCH, goruntime.Version(), output("uname", "-r"), goruntime.NumCPU()}
}

func output(name string, args ...string) string {
	p, err := exec.Command(name, args...).Output()
	if err != nil {
		log.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(p))
}
