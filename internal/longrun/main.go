// Command longrun is the long test tier: it runs what is too slow for every
// change (repetitions, storms, fuzzing), and writes a report with commit,
// machine and figures. It is started by .ci/long.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	goruntime "runtime"
	"strconv"
	"strings"
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
	Name       string  `json:"name"`
	Env        string  `json:"env,omitempty"`
	Command    string  `json:"command"`
	Seconds    float64 `json:"seconds"`
	Passed     bool    `json:"passed"`
	Executions int64   `json:"executions,omitempty"` // of a fuzz target
	Corpus     int64   `json:"interesting,omitempty"`
	Output     string  `json:"output,omitempty"` // the tail, of a failure
}

// repetitions are test runs beyond what every change pays for.
var repetitions = []job{
	{Name: "file system races, 20 times", Command: "go test -count=20 -timeout 60m -run TestFSCases/race ./cmd/wasmtools"},
	{Name: "hostile guests, 10,000 calls each", Env: "WASMTOOLS_HOSTILE=10000", Command: "go test -count=1 -timeout 300m -v -run TestHostileLeavesNothing ./runtime"},
	{Name: "10^6 hand-overs with late stops", Env: "WASMTOOLS_LONG=1", Command: "go test -count=1 -timeout 60m -run TestLateStops ./runtime"},
	{Name: "rewriter against the engine, everything", Env: "WASMTOOLS_LONG=1", Command: "go test -count=1 -timeout 60m ./runtime/rewrite"},
	{Name: "everything under the race detector", Command: "go test -race -count=1 -timeout 60m ./..."},
}

func main() {
	log.SetFlags(0)
	out := flag.String("o", "long.json", "where the report goes")
	perTarget := flag.Duration("fuzz", 2*time.Minute, "time of each fuzz target")
	parsers := flag.String("parsers", "2000000x", "time or executions of each fuzz target of the module parsers")
	only := flag.String("run", "", "only jobs whose name matches this regexp")
	flag.Parse()
	filter, err := regexp.Compile(*only)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	r := report{Started: time.Now().UTC().Truncate(time.Second), Passed: true, Machine: thisMachine()}
	r.Commit = output("git", "rev-parse", "HEAD")
	r.Dirty = output("git", "status", "--porcelain", "--untracked-files=no") != ""
	jobs := repetitions
	for _, t := range fuzzTargets() {
		howLong := perTarget.String()
		if strings.HasSuffix(t.pkg, "/rewrite") || strings.HasSuffix(t.pkg, "/manifest") {
			howLong = *parsers // they read a stranger's bytes first
		}
		jobs = append(jobs, job{
			Name:    "fuzz " + strings.TrimPrefix(t.pkg, modulePath) + " " + t.name,
			Command: fmt.Sprintf("go test -run ^$ -fuzz ^%s$ -fuzztime %s -fuzzminimizetime 5s -parallel 2 %s", t.name, howLong, t.pkg),
		})
	}
	for _, j := range jobs {
		if ctx.Err() != nil {
			log.Fatal("interrupted")
		}
		if !filter.MatchString(j.Name) {
			continue
		}
		log.Printf("== %s", j.Name)
		j.run(ctx)
		log.Printf("   passed=%v in %.0f s, %d executions", j.Passed, j.Seconds, j.Executions)
		r.Passed = r.Passed && j.Passed
		r.Jobs = append(r.Jobs, j)
	}
	r.Minutes = time.Since(r.Started).Minutes()
	p, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*out, append(p, '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
	if !r.Passed {
		log.Fatal("FAIL: see ", *out)
	}
}

var (
	execs       = regexp.MustCompile(`execs: (\d+)`)
	interesting = regexp.MustCompile(`total: (\d+)\)`)
)

func (j *job) run(ctx context.Context) {
	args := strings.Fields(j.Command)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1") // for the race detector
	if j.Env != "" {
		cmd.Env = append(cmd.Env, j.Env)
	}
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	began := time.Now()
	err := cmd.Run()
	j.Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
	j.Passed = err == nil
	text := buf.String()
	if m := execs.FindAllStringSubmatch(text, -1); m != nil {
		j.Executions, _ = strconv.ParseInt(m[len(m)-1][1], 10, 64)
	}
	if m := interesting.FindAllStringSubmatch(text, -1); m != nil {
		j.Corpus, _ = strconv.ParseInt(m[len(m)-1][1], 10, 64)
	}
	if !j.Passed {
		j.Output = text[max(0, len(text)-4000):]
		log.Print(j.Output)
	}
}

type target struct{ pkg, name string }

// fuzzTargets finds every fuzz target of the module.
func fuzzTargets() []target {
	var ts []target
	for _, pkg := range strings.Fields(output("go", "list", "./...")) {
		for _, line := range strings.Fields(output("go", "test", "-list", "^Fuzz", pkg)) {
			if strings.HasPrefix(line, "Fuzz") {
				ts = append(ts, target{pkg, line})
			}
		}
	}
	return ts
}

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
