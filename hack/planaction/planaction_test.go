// Package planaction tests the script that comments on pull requests with plans. The tests use the documented
// environments of GitHub and GitLab, and a stand-in for the APIs of both. Neither platform has run the script.
package planaction

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// platform is an API that stores comments.
type platform struct {
	*httptest.Server
	author   string
	comments []map[string]any
	tokens   map[string]bool
	// broken makes the API refuse every request. asked counts the requests.
	broken bool
	asked  int
}

func newPlatform(t *testing.T, author string) *platform {
	t.Helper()

	p := &platform{author: author, tokens: map[string]bool{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.tokens[r.Header.Get("Authorization")+r.Header.Get("PRIVATE-TOKEN")] = true

		if p.asked++; p.broken {
			w.WriteHeader(http.StatusForbidden)
			return
		}

		if strings.HasSuffix(r.URL.Path, "/user") {
			_ = json.NewEncoder(w).Encode(map[string]string{"username": author})
			return
		}

		if r.Method == http.MethodGet {
			page := p.comments
			if r.URL.Query().Get("page") != "1" {
				page = nil
			}

			_ = json.NewEncoder(w).Encode(append([]map[string]any{}, page...))

			return
		}

		content, _ := io.ReadAll(r.Body)

		var sent struct{ Body string }
		if json.Unmarshal(content, &sent) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}

		if r.Method == http.MethodPost {
			p.add(author, sent.Body)
			return
		}

		for _, comment := range p.comments {
			if strings.HasSuffix(r.URL.Path, "/"+comment["id"].(json.Number).String()) {
				comment["body"] = sent.Body
				return
			}
		}

		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(p.Close)

	return p
}

func (p *platform) add(author, body string) {
	p.comments = append(p.comments, map[string]any{
		"id": json.Number(string(rune('1' + len(p.comments)))), "body": body,
		"user": map[string]string{"login": author}, "author": map[string]string{"username": author},
	})
}

// environment returns the environment of a platform.
func (p *platform) environment(gitlab bool) []string {
	if gitlab {
		return []string{"CI_API_V4_URL=" + p.URL, "CI_PROJECT_ID=7", "CI_MERGE_REQUEST_IID=3", "PLAN_TOKEN=canary",
			"CI_JOB_URL=https://ci.example.com/1"}
	}

	return []string{"GITHUB_ACTIONS=true", "GITHUB_API_URL=" + p.URL, "GITHUB_REPOSITORY=o/r", "PULL_REQUEST=3",
		"GITHUB_TOKEN=canary", "RUN_URL=https://ci.example.com/1"}
}

// run runs the script with a fake olvmctl. The fake prints a plan and a problem, and exits with a code.
func run(t *testing.T, environment []string, plan, problem string, code string) (exit int, out string) {
	t.Helper()

	dir := t.TempDir()
	check.Error(t, os.WriteFile(filepath.Join(dir, "plan"), []byte(plan), 0o600), "")
	check.Error(t, os.WriteFile(filepath.Join(dir, "problem"), []byte(problem), 0o600), "")
	check.Error(t, os.WriteFile(filepath.Join(dir, "olvmctl"), []byte("#!/bin/sh\necho \"$@\" >"+dir+"/args\ncat "+dir+
		"/plan\ncat "+dir+"/problem >&2\nexit "+code+"\n"), 0o755), "") //nolint:gosec // a program

	command := exec.CommandContext(t.Context(), "bash", "../../.github/actions/plan/plan.sh")
	command.Env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "PLAN_ARGS=-f\nclusters/ of prod\n"},
		environment...)

	said, err := command.CombinedOutput()
	if args, failed := os.ReadFile(filepath.Join(dir, "args")); failed == nil { // olvmctl has run
		check.Contains(t, "the arguments", string(args), "plan -f clusters/ of prod -o markdown")
	}

	if err == nil {
		return 0, string(said)
	}

	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		t.Fatal(err)
	}

	return ended.ExitCode(), string(said)
}

const (
	nothing = "### Plan: 0 to create, 0 to update, 0 to replace, 0 to destroy\n\nx\n"
	create  = "### Plan: 1,003 to create, 0 to update, 0 to replace, 0 to destroy\n\nx\n"
	replace = "### Plan: 0 to create, 0 to update, 2 to replace, 0 to destroy\n\nx\n"
	objects = "### Plan: 0 to create, 0 to update, 0 to replace, 0 to destroy, 2 objects to delete\n\nx\n"
	offline = "### Plan: what would become of 3 machines is not known offline, 0 to destroy\n\nx\n"
	destroy = "### Plan: 0 to create, 1 to update, 0 to replace, 1,000 to destroy, 1 refused\n\nx\n"
)

func TestOneCommentIsKeptUpToDate(t *testing.T) {
	for name, gitlab := range map[string]bool{"GitHub": false, "GitLab": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlatform(t, map[bool]string{false: "github-actions[bot]", true: "plan-bot"}[gitlab])
			p.add("stranger", "<!-- olvmctl-plan  -->\nforged")
			p.add(p.author, "another comment")

			exit, out := run(t, p.environment(gitlab), create, "", "2")
			check.Equal(t, "exit code, after "+out, exit, 0)
			check.Length(t, "comments", p.comments, 3)
			check.Contains(t, "the comment", p.comments[2]["body"].(string), "1,003 to create")

			exit, out = run(t, p.environment(gitlab), nothing, "", "0")
			check.Equal(t, "exit code, after "+out, exit, 0)
			check.Length(t, "comments", p.comments, 3)
			check.Contains(t, "the comment", p.comments[2]["body"].(string), "Plan: 0 to create")

			exit, _ = run(t, p.environment(gitlab), "", "olvmctl: ``` </details> it went wrong\n::error::x", "1")
			check.Equal(t, "exit code of an error", exit, 1)
			check.Length(t, "comments", p.comments, 3)
			check.Contains(t, "the comment", p.comments[2]["body"].(string), "### The plan failed\n\n````\nolvmctl: ```")
			check.Lacks(t, "the comment", p.comments[2]["body"].(string), "Plan: 0")
			check.Contains(t, "that of a stranger", p.comments[0]["body"].(string), "forged")
			check.Equal(t, "tokens", len(p.tokens), 1)
		})
	}
}

func TestACommandInAMessageIsNone(t *testing.T) {
	p := newPlatform(t, "github-actions[bot]")
	_, out := run(t, p.environment(false), "", "::error::forged\n", "1")
	before, _, _ := strings.Cut(out, "::error::")
	check.Contains(t, "what is before it", before, "::stop-commands::")
}

// TestACommandToGitLabIsNone uses a message with a line that ends the fence by GitLab's rules, although the line is
// shorter than the fence.
func TestACommandToGitLabIsNone(t *testing.T) {
	for name, gitlab := range map[string]bool{"GitHub": false, "GitLab": true} {
		p := newPlatform(t, map[bool]string{false: "github-actions[bot]", true: "plan-bot"}[gitlab])
		run(t, p.environment(gitlab), "", "olvmctl: a\n```\n/merge\n/approve\n", "1")
		check.Length(t, name+": comments", p.comments, 1)

		body := p.comments[0]["body"].(string)
		check.Contains(t, name+": the message is there", body, " /merge")
		check.Lacks(t, name+": the comment", body, "\n/")
	}
}

func TestAPlanFailsOnWhatIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		on, plan, code string
		want           int
	}{
		"nothing is named":           {"", destroy, "2", 0},
		"destroys, and there are":    {"destroy", destroy, "2", 3},
		"destroys, and there are no": {"destroy", replace, "2", 0},
		"destroys, and objects go":   {"destroy", objects, "2", 3},
		"replacements, and they go":  {"replace", objects, "2", 3},
		"replacements":               {"replace", replace, "2", 3},
		"replacements, and destroys": {"replace", destroy, "2", 3},
		"replacements, and creates":  {"replace", create, "2", 0},
		"anything":                   {"any", create, "2", 3},
		"anything, and there is no":  {"any", nothing, "0", 0},
		"what is not known":          {"all", nothing, "0", 1},
		"a plan that failed":         {"destroy", "", "1", 1},
		"an offline plan":            {"any", offline, "0", 3},
		"an offline plan, no matter": {"", offline, "0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			exit, out := run(t, []string{"FAIL_ON=" + test.on}, test.plan, "", test.code)
			check.Equal(t, "exit code, after "+out, exit, test.want)

			if test.plan == offline && test.on != "" {
				check.Contains(t, "the remedy", out, "plan without --offline")
			}
		})
	}
}

// TestAPlanThatSaysNothingIsTold uses an olvmctl that is killed, and one that crashes. After a crash, Go exits with the
// same code as olvmctl for changes.
func TestAPlanThatSaysNothingIsTold(t *testing.T) {
	for name, test := range map[string]struct{ problem, code, want string }{
		"killed":  {"", "137", "### The plan failed\n\n```\nolvmctl plan ended with code 137\n```"},
		"crashed": {"panic: index out of range\n", "2", "### The plan failed\n\n```\npanic: index out of range\n"},
		"no plan": {"", "0", "### The plan failed\n\n```\nolvmctl plan ended with code 0\n```"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlatform(t, "github-actions[bot]")
			p.add(p.author, "<!-- olvmctl-plan  -->\n"+create)

			exit, out := run(t, p.environment(false), "", test.problem, test.code)
			check.Equal(t, "exit code, after "+out, exit, 1)
			check.Length(t, "comments", p.comments, 1)
			check.Contains(t, "the comment", p.comments[0]["body"].(string), test.want)
		})
	}
}

func TestAnAPIThatRefusesIsAskedOnce(t *testing.T) {
	for name, gitlab := range map[string]bool{"GitHub": false, "GitLab": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlatform(t, "github-actions[bot]")
			p.broken = true

			exit, out := run(t, p.environment(gitlab), create, "", "2")
			check.Equal(t, "exit code, after "+out, exit, 1)
			check.Contains(t, "what is said", out, "the comment was not written: ")
			check.Equal(t, "requests", p.asked, 1)
		})
	}
}

// TestACommentOfAnotherTokenIsKeptUpToDate uses the token of an app. No API reveals the app's name.
func TestACommentOfAnotherTokenIsKeptUpToDate(t *testing.T) {
	p := newPlatform(t, "plans[bot]")
	p.add("github-actions[bot]", "<!-- olvmctl-plan  -->\nof another workflow")

	for _, plan := range []string{create, replace} {
		exit, out := run(t, append(p.environment(false), "COMMENT_AUTHOR=plans[bot]"), plan, "", "2")
		check.Equal(t, "exit code, after "+out, exit, 0)
	}

	check.Length(t, "comments", p.comments, 2)
	check.Contains(t, "the comment", p.comments[1]["body"].(string), "2 to replace")

	content, err := os.ReadFile("../../.github/actions/plan/action.yaml")
	check.Error(t, err, "")
	check.Contains(t, "the action", string(content), "COMMENT_AUTHOR: ${{ inputs.comment-author }}")
}

// TestAPlanWithoutAPullRequestIsOnThePageOfTheRun covers the nightly check for drift, which makes no request to the
// API.
func TestAPlanWithoutAPullRequestIsOnThePageOfTheRun(t *testing.T) {
	for name, test := range map[string]struct {
		plan, code, want string
		exit             int
	}{
		"drift":    {replace, "2", "### Plan: 0 to create, 0 to update, 2 to replace", 3},
		"no drift": {nothing, "0", "### Plan: 0 to create", 0},
		"an error": {"", "1", "### The plan failed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			page := filepath.Join(t.TempDir(), "summary.md")
			p := newPlatform(t, "github-actions[bot]")
			environment := append(p.environment(false), "PULL_REQUEST=", "FAIL_ON=any", "GITHUB_STEP_SUMMARY="+page)

			exit, out := run(t, environment, test.plan, "", test.code)
			check.Equal(t, "exit code, after "+out, exit, test.exit)
			check.Equal(t, "requests", p.asked, 0)

			content, err := os.ReadFile(page)
			check.Error(t, err, "")
			check.Contains(t, "the page", string(content), test.want)
		})
	}
}

// component is a GitLab component: its inputs and jobs.
type component struct {
	Spec struct {
		Inputs map[string]struct{ Default *string }
	}
	jobs map[string]struct {
		Rules     []struct{ If string }
		Variables map[string]string
		Script    []string
	}
}

// readComponent reads both documents of a component.
func readComponent(t *testing.T, path string) (out component) {
	t.Helper()
	content, err := os.ReadFile(path)
	check.Error(t, err, "")
	spec, jobs, _ := strings.Cut(string(content), "\n---\n")
	check.Error(t, yaml.Unmarshal([]byte(spec), &out), "")
	check.Error(t, yaml.Unmarshal([]byte(jobs), &out.jobs), "")

	return out
}

// TestTheComponentForDriftRunsInSchedulesAlone runs the last command of each component. It fills in the inputs before,
// as GitLab does. The exit code of the plan makes the job fail.
func TestTheComponentForDriftRunsInSchedulesAlone(t *testing.T) {
	for name, source := range map[string]string{"plan": "merge_request_event", "drift": "schedule"} {
		c := readComponent(t, "../../templates/"+name+".yml")
		job := c.jobs["olvmctl-"+name]
		check.Length(t, name+": rules", job.Rules, 1)
		check.Equal(t, name+": rule", job.Rules[0].If, `$CI_PIPELINE_SOURCE == "`+source+`"`)

		for variable, input := range map[string]string{"PLAN_ARGS": "args", "FAIL_ON": "fail-on", "REF": "ref"} {
			check.Equal(t, name+": "+variable, job.Variables[variable], "$[[ inputs."+input+" ]]")
		}

		check.Contains(t, name+": the last command", job.Script[len(job.Script)-1], "/.github/actions/plan/plan.sh")

		for _, line := range job.Script {
			check.Lacks(t, name+": a folder that others can make first", line, "/tmp/")
		}
	}

	drift := readComponent(t, "../../templates/drift.yml").Spec.Inputs
	check.Equal(t, "arguments", *drift["args"].Default, "--kubeconfig\n$KUBECONFIG")
	check.Equal(t, "fail-on", *drift["fail-on"].Default, "any")
}

// TestTheWorkflowForDriftCallsTheAction reads the workflow. actionlint checks the workflow's meaning for GitHub.
func TestTheWorkflowForDriftCallsTheAction(t *testing.T) {
	content, err := os.ReadFile("../../.github/workflows/drift.yaml")
	check.Error(t, err, "")

	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Steps []struct {
				Uses, Run string
				With, Env map[string]string
			}
		}
	}
	check.Error(t, yaml.Unmarshal(content, &workflow), "")
	check.Equal(t, "permissions", len(workflow.Permissions), 1)
	check.Equal(t, "permission", workflow.Permissions["contents"], "read")

	called := false

	for _, step := range workflow.Jobs["drift"].Steps {
		check.Lacks(t, "a command with an expression", step.Run, "${{")

		if step.Uses == "./capolvm/.github/actions/plan" {
			called = true
			check.Equal(t, "arguments", step.With["args"],
				"--kubeconfig\n${{ runner.temp }}/olvmctl.kubeconfig\n${{ inputs.args }}\n")
		}
	}

	check.Equal(t, "the action is called", called, true)
}
